import { execFile } from 'node:child_process';
import { access, copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { freePort } from '../../stack/free-port.ts';
import { startRedis } from '../../stack/redis-server.ts';
import { processTree } from '../processes.ts';
import { type Gateway, modelName } from './gateway.ts';
import type { Place } from './places.ts';
import { startProcess } from './start-process.ts';

export const litellmVersion = '1.106.2';

/** It compiles itself on its first start. */
const startWithinMs = 180_000;
const workers = 2;
const highLimits = { rpm_limit: 100_000_000, tpm_limit: 100_000_000_000, max_parallel_requests: 100_000 };

/** Limits of a client key, with LiteLLM's names. */
type Limits = Partial<Record<'rpm_limit' | 'tpm_limit' | 'max_parallel_requests', number>>;
type Options = Place & { peers: string; name?: string; keys?: Record<string, Limits> };

/**
 * LiteLLM's proxy with two workers, logging errors only, as its production guide recommends. A client key is checked by a function,
 * because its own keys need Postgres. The limits of the key are enforced by its limiter, which counts in Redis.
 */
export async function startLitellm({ directory: above, peers, modelServer, name = 'litellm', keys = {} }: Options) {
  await using parts = new AsyncDisposableStack();
  const program = await install(join(peers, 'litellm'));
  const directory = join(above, name);
  await mkdir(directory, { recursive: true });
  const redis = parts.use(await startRedis({ directory: join(directory, 'redis') }));
  const at = { host: '127.0.0.1', port: redis.port };
  const config = {
    model_list: [
      {
        model_name: modelName,
        litellm_params: { model: `openai/${modelName}`, api_base: `${modelServer.url}/v1`, api_key: 'none' },
      },
    ],
    litellm_settings: {
      ...{ set_verbose: false, json_logs: true, request_timeout: 600 },
      // Redis is for the limiter. No answers are cached.
      ...{ cache: true, cache_params: { type: 'redis', ...at, supported_call_types: [] } },
    },
    general_settings: { custom_auth: 'client_keys.check_key', master_key: `sk-${crypto.randomUUID()}` },
    router_settings: { redis_host: at.host, redis_port: at.port },
  };
  await writeFile(join(directory, 'config.yaml'), stringify(config));
  await copyFile(new URL('./client_keys.py', import.meta.url), join(directory, 'client_keys.py'));

  const port = await freePort();
  const start = () =>
    startProcess({
      command: program,
      args: ['--config', 'config.yaml', '--host', at.host, '--port', String(port), '--num_workers', String(workers)],
      cwd: directory,
      env: {
        ...{ LITELLM_LOG: 'ERROR', LITELLM_MODE: 'PRODUCTION', LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
        CLIENT_KEYS: JSON.stringify({ 'sk-bench': highLimits, ...keys }),
      },
      logFile: join(directory, 'litellm.log'),
      readyUrl: `http://127.0.0.1:${port}/health/liveliness`,
      withinMs: startWithinMs,
    });
  const place = { url: `http://127.0.0.1:${port}`, process: await start(), start };
  parts.defer(() => place.process[Symbol.asyncDispose]());
  const owned = parts.move();
  return { place, redis, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export async function litellmRow(options: Options): Promise<Gateway> {
  const { place, redis, ...started } = await startLitellm(options);
  return {
    urls: [place.url],
    headers: { authorization: 'Bearer sk-bench' },
    processes: async () => ({ gateway: await processTree(place.process.pid), redis: [redis.pid] }),
    [Symbol.asyncDispose]: started[Symbol.asyncDispose],
  };
}

async function install(folder: string): Promise<string> {
  const program = join(folder, 'bin/litellm');
  const isThere = await access(program).then(
    () => true,
    () => false,
  );
  if (isThere) return program;
  const run = promisify(execFile);
  await run('python3', ['-m', 'venv', folder]);
  await run(join(folder, 'bin/pip'), ['install', '--quiet', `litellm[proxy]==${litellmVersion}`]);
  return program;
}
