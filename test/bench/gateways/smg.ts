import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { freePort } from '../../stack/free-port.ts';
import { providePython } from '../../stack/python-environment.ts';
import { processTree } from '../processes.ts';
import type { Gateway } from './gateway.ts';
import type { Place } from './places.ts';
import { startProcess } from './start-process.ts';

export const smgVersion = '1.13.0';

const readyWithinMs = 30_000;
const readiness = z.object({ healthy_workers: z.number() });

type Options = {
  directory: string;
  /** The addresses of the model servers, without `/v1`. */
  backends: readonly string[];
  policy: 'prefix_hash' | 'cache_aware' | 'least_load';
  /** Clients must send it, and SMG sends it to the model servers. Default: no key is checked. */
  apiKey?: string;
  settings?: readonly string[];
};

/** The model gateway of SGLang, one process, logging errors only. It checks the one key, if any, and no limit. */
export async function startSmg(options: Options): Promise<Gateway> {
  const { directory: above, backends, policy, apiKey, settings = [] } = options;
  const python = await providePython({ name: 'smg', packages: { smg: smgVersion }, modules: ['smg'] });
  const directory = join(above, 'smg');
  await mkdir(directory, { recursive: true });
  const [port, metricsPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const started = await startProcess({
    command: python,
    args: [
      ...[
        join(dirname(python), 'smg'),
        'launch',
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        '--prometheus-port',
        String(metricsPort),
      ],
      ...['--worker-urls', ...backends, '--policy', policy, '--max-concurrent-requests', '4096'],
      ...['--log-level', 'error', '--history-backend', 'none', '--disable-load-monitoring'],
      ...(apiKey === undefined ? [] : ['--api-key', apiKey]),
      ...settings,
    ],
    logFile: join(directory, `${policy}.log`),
    readyUrl: `${url}/readiness`,
  });
  await untilReady(url, backends.length);
  return {
    urls: [url],
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    processes: async () => ({ gateway: await processTree(started.pid) }),
    [Symbol.asyncDispose]: () => started.kill(), // it would wait for idle connections
  };
}

/** In front of the one model server, where any policy chooses the same. It checks one key. */
export function smgRow({ directory, modelServer }: Place): Promise<Gateway> {
  return startSmg({ directory, backends: [modelServer.url], policy: 'least_load', apiKey: 'sk-bench' });
}

/** It answers as soon as it knows one backend. */
async function untilReady(url: string, backends: number): Promise<void> {
  const giveUpAt = performance.now() + readyWithinMs;
  for (;;) {
    const { healthy_workers: healthy } = readiness.parse(await (await fetch(`${url}/readiness`)).json());
    if (healthy === backends) return;
    if (performance.now() > giveUpAt) throw new Error(`SMG has only ${healthy} of ${backends} backends`);
    await sleep(100);
  }
}
