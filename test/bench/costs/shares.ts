import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { questionFor } from '../gateways/gateway.ts';
import type { Place } from '../gateways/places.ts';
import { startService } from '../gateways/start-service.ts';
import { generate, loads } from '../loads/load.ts';

/** For a process under a load of streams: the share of its main thread's time, without idle time, by where it was spent. */
export type TimeShares = { load: string; process: 'ingress' | 'worker'; shares: Record<string, number> };

/** Until the compiler has finished most of its work. */
const warmUpSeconds = 15;

/** Profiles ingress and worker under each load of streams. */
export async function measureShares(place: Place, { seconds }: { seconds: number }): Promise<TimeShares[]> {
  const found: TimeShares[] = [];
  for (const load of loads.filter(({ kind }) => kind === 'streams')) {
    const directory = join(place.directory, `profiles ${load.name}`);
    const until = await profile(place, { load, seconds, directory });
    for (const process of ['ingress', 'worker'] as const) {
      const file = (await readdir(join(directory, process))).find((name) => name.endsWith('.cpuprofile'));
      if (file === undefined) throw new Error(`${process} has left no profile`);
      const text = await readFile(join(directory, process, file), 'utf8');
      const shares = sharesOf(profileSchema.parse(JSON.parse(text)), { from: until - seconds * 1e6, until });
      found.push({ load: load.name, process, shares });
    }
  }
  return found;
}

type Profiled = { load: (typeof loads)[number]; seconds: number; directory: string };

/** Returns when the load has ended, by the clock of profiles. A process writes its profile when it ends. */
async function profile(place: Place, { load, seconds, directory }: Profiled): Promise<number> {
  const nodeArguments = (process: string) => ['--cpu-prof', `--cpu-prof-dir=${join(directory, process)}`];
  await using service = await startService({ ...place, name: `profiled ${load.name}`, nodeArguments });
  const headers = { authorization: `Bearer ${await service.keyOn('free')}` };
  const asked = { urls: service.urls, headers };
  await generate({ kind: 'many', clients: 64, seconds: warmUpSeconds, question: questionFor(asked, {}) });
  await generate({ ...load, seconds, question: questionFor(asked, load.fields) });
  return Number(process.hrtime.bigint() / 1_000n);
}

/**
 * As V8 writes it (https://chromedevtools.github.io/devtools-protocol/tot/Profiler#type-Profile). Times are in microseconds of the system's
 * monotonic clock.
 */
const profileSchema = z.object({
  nodes: z.array(z.object({ id: z.number(), callFrame: z.object({ functionName: z.string(), url: z.string() }) })),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
  startTime: z.number(),
});
type Profile = z.infer<typeof profileSchema>;

/** Of the samples in the time of the load. */
function sharesOf(
  { nodes, samples, timeDeltas, startTime }: Profile,
  { from, until }: { from: number; until: number },
): Record<string, number> {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const sums = new Map<string, number>();
  let at = startTime;
  let busy = 0;
  for (const [index, id] of samples.entries()) {
    const passed = timeDeltas[index] ?? 0;
    at += passed;
    const place = places.get(id);
    if (place === undefined || at < from || at > until) continue;
    busy += passed;
    sums.set(place, (sums.get(place) ?? 0) + passed);
  }
  return Object.fromEntries([...sums].map(([place, sum]) => [place, sum / busy]));
}

const parts: readonly [pattern: RegExp, place: string][] = [
  [/\/node_modules\/((?:@[^/]+\/)?[^/]+)\//, 'package'],
  [/\/(?:workers|shared)\/(?:backend-client|fleet)\//, 'connections to backends'],
  [/\/shared\/endpoints\//, 'requests and answers of endpoints'],
  [/\/workers\/failover\//, 'calls of backends'],
  [/\/(?:workers|ingress)\/replies\/|\/shared\/jobs\//, 'replies'],
  [/\/(?:workers|ingress)\/queue\//, 'queues'],
  [/\/shared\/redis\//, 'Redis'],
  [/\/shared\/store\/|\/workers\/usage\//, 'usage in the store'],
  [/\/(?:shared|ingress)\/limits\/|\/workers\/(?:fleet-limits|requests)\//, 'limits and leases'],
  [/\/ingress\/(?:middleware|listener|authentication)\//, 'HTTP and callers'],
];
const libraries: ReadonlySet<string> = new Set(['ioredis', 'undici', 'bullmq', 'koa', 'zod', 'prom-client', 'pino']);

/** Node's own functions for a socket, most of whose time is that of the system. */
const socketCalls: ReadonlySet<string> = new Set([
  ...['writeUtf8String', 'writeLatin1String', 'writeAsciiString', 'writeBuffer', 'writev', 'readStart', 'readStop'],
]);

/** Where time in this function is spent; undefined for idle time. */
function placeOf({ functionName, url }: { functionName: string; url: string }): string | undefined {
  if (functionName === '(idle)') return undefined;
  if (functionName === '(garbage collector)') return 'memory';
  if (functionName === '(program)') return 'the system and V8';
  const isOfSockets =
    /^node:(net|_http|internal\/(js_)?stream)/.test(url) || (url === '' && socketCalls.has(functionName));
  if (isOfSockets) return 'Node’s sockets, streams and HTTP';
  if (url === '' || url.startsWith('node:')) return 'Node, other';
  const [pattern, place = 'other'] = parts.find(([each]) => each.test(url)) ?? [];
  if (place !== 'package') return place;
  const name = pattern?.exec(url)?.[1] ?? '';
  return libraries.has(name) ? name : 'other packages';
}
