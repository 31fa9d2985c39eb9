import { execFile } from 'node:child_process';
import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../stack/free-port.ts';
import type { Gateway } from './gateway.ts';
import type { Place } from './places.ts';
import { startProcess } from './start-process.ts';

export const portkeyVersion = '1.15.2';

/**
 * The version that its own repository pins: from 1.14.2 on this package makes every stream of the gateway fail with `TypeError:
 * immutable` (Portkey-AI/gateway, issue 1389).
 */
const overrides = { '@hono/node-server': '1.13.5' };

/** Portkey's gateway, one process, with production settings: no console, no log of requests. It checks no key and no limit. */
export async function portkeyRow({ directory, peers, modelServer }: Place & { peers: string }): Promise<Gateway> {
  const program = await install(join(peers, 'portkey'));
  const port = await freePort();
  const started = await startProcess({
    command: process.execPath,
    args: [program, `--port=${port}`, '--headless'],
    env: { NODE_ENV: 'production' },
    logFile: join(directory, 'portkey.log'),
    readyUrl: `http://127.0.0.1:${port}/`,
  });
  return {
    urls: [`http://127.0.0.1:${port}`],
    headers: {
      authorization: 'Bearer none',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `${modelServer.url}/v1`,
    },
    processes: async () => ({ gateway: [started.pid] }),
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}

async function install(folder: string): Promise<string> {
  const program = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js');
  const isThere = await access(program).then(
    () => true,
    () => false,
  );
  if (isThere) return program;
  await mkdir(folder, { recursive: true });
  const manifest = { private: true, dependencies: { '@portkey-ai/gateway': portkeyVersion }, overrides };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--silent'], { cwd: folder });
  return program;
}
