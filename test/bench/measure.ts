import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from 'undici';
import { z } from 'zod';

/** Where to send the request that is measured. */
export type Target = { url: string; headers: Record<string, string>; body: string };

/** Requests a second, and milliseconds from request to answer; `failed` counts answers other than 2xx and broken connections. */
export type Load = { requestsPerSecond: number; p50Ms: number; p99Ms: number; failed: number };

const autocannonReport = z.object({
  requests: z.object({ average: z.number() }),
  latency: z.object({ p50: z.number(), p99: z.number() }),
  errors: z.number(),
  timeouts: z.number(),
  non2xx: z.number(),
});

const autocannon = fileURLToPath(new URL('../../node_modules/autocannon/autocannon.js', import.meta.url));

/** Many clients, each sending its next request when the last is answered; the generator is a process of its own. */
export async function measureLoad(
  target: Target,
  { clients, seconds }: { clients: number; seconds: number },
): Promise<Load> {
  const headers = Object.entries(target.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const args = ['-j', '-n', '-m', 'POST', '-c', String(clients), '-d', String(seconds), ...headers, '-b', target.body];
  const { stdout } = await promisify(execFile)(process.execPath, [autocannon, ...args, target.url]);
  const { requests, latency, errors, timeouts, non2xx } = autocannonReport.parse(JSON.parse(stdout));
  const failed = errors + timeouts + non2xx;
  return { requestsPerSecond: requests.average, p50Ms: latency.p50, p99Ms: latency.p99, failed };
}

/** One client on one connection, timed by itself: a generator that counts whole milliseconds cannot tell these apart. */
export async function measureOneClient(target: Target, { seconds }: { seconds: number }): Promise<Load> {
  const { origin, pathname: path } = new URL(target.url);
  const client = new Client(origin);
  const timesMs: number[] = [];
  let failed = 0;
  const endAt = performance.now() + seconds * 1000;
  while (performance.now() < endAt) {
    const startedAt = performance.now();
    const { statusCode, body } = await client.request({
      path,
      method: 'POST',
      headers: target.headers,
      body: target.body,
    });
    await body.text();
    timesMs.push(performance.now() - startedAt);
    if (statusCode !== 200) failed++;
  }
  await client.close();
  timesMs.sort((a, b) => a - b);
  const at = (share: number) => timesMs[Math.floor(timesMs.length * share)] ?? Number.NaN;
  return { requestsPerSecond: timesMs.length / seconds, p50Ms: at(0.5), p99Ms: at(0.99), failed };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low, high] = [sorted[middle - 1] ?? Number.NaN, sorted[middle] ?? Number.NaN];
  return sorted.length % 2 === 1 ? high : (low + high) / 2;
}
