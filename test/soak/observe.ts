import { readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { residentMiB } from '../bench/processes.ts';
import type { RunningProcess, Stack } from '../stack/stack.ts';
import { serviceMetrics, serviceTotal } from '../support/service-metric.ts';
import type { Course, Rest } from './judge.ts';

const bytesPerMiB = 1_048_576;
const sampleEveryMs = 2_000;
const restWithinMs = 120_000;
/** The model servers keep a connection for 75 s after its last call. By then the drainer has emptied the outbox. */
const settleMs = 80_000;

export function processesOf({ ingresses, workers }: Stack): Record<string, RunningProcess> {
  return Object.fromEntries([
    ...ingresses.map((each, index) => [`ingress ${index + 1}`, each]),
    ...workers.map((each, index) => [`worker ${index + 1}`, each]),
  ]);
}

export const redisName = 'redis';

/** Samples every process of the stack, and its Redis, until `stop` is called. */
export function watchProcesses(stack: Stack) {
  const stopping = new AbortController();
  const courses = Object.entries(processesOf(stack)).map(([name, process]) => ({
    ...{ name, process, residentMiB: [] as number[], heapMiB: [] as number[] },
  }));
  const ofRedis: number[] = [];
  const watching = (async () => {
    while (!stopping.signal.aborted) {
      const [pid] = stack.redis?.pids ?? [];
      if (pid !== undefined) ofRedis.push(await residentMiB(pid));
      for (const { process, residentMiB: resident, heapMiB } of courses) {
        const [heapBytes = Number.NaN] = await serviceMetrics(process, ['nodejs_heap_size_used_bytes']);
        heapMiB.push(heapBytes / bytesPerMiB);
        resident.push(await residentMiB(process.process.pid));
      }
      await sleep(sampleEveryMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    async stop(): Promise<Record<string, Course>> {
      stopping.abort();
      await watching;
      return Object.fromEntries([
        ...courses.map(({ name, residentMiB, heapMiB }) => [name, { residentMiB, heapMiB }] as const),
        [redisName, { residentMiB: ofRedis, heapMiB: [] }] as const,
      ]);
    },
  };
}

/** Waits until no request is in progress, then reads what every process and Redis hold. */
export async function observeRest(stack: Stack): Promise<Rest> {
  const giveUpAt = performance.now() + restWithinMs;
  const isBusy = async () =>
    (await serviceTotal(stack.workers, 'svc_leases_held')) + (await serviceTotal(stack.workers, 'svc_jobs_running')) >
    0;
  while (await isBusy()) {
    if (performance.now() > giveUpAt)
      throw new Error('requests are still in progress long after the traffic has stopped');
    await sleep(500);
  }
  await sleep(settleMs);
  const rest: Rest = {};
  for (const [name, process] of Object.entries(processesOf(stack))) {
    const [handles = Number.NaN] = await serviceMetrics(process, ['nodejs_active_handles_total']);
    rest[`${name}: open handles`] = handles;
    rest[`${name}: open files and sockets`] = (await readdir(`/proc/${process.process.pid}/fd`)).length;
  }
  return { ...rest, ...(await observeRedis(stack)) };
}

/** Marks that identify ended requests for an hour: one per request. Nothing else grows with the number of requests. */
export const marks = 'Redis: marks of ended requests';
/** Also for an hour, one per key that was used. */
export const callers = 'Redis: callers by their keys';
export const usedMiB = 'Redis: data without these two, MiB';
/** Redis counts a key's place in the table of keys as a part of the key, but not of its data. */
const placeBytes = 24;

async function observeRedis({ redisUrl }: Stack): Promise<Rest> {
  const redis = new Redis(redisUrl);
  try {
    const found = { marks: 0, callers: 0, permanent: 0, expiring: 0, bytes: 0 };
    for (const key of await redis.keys('*')) {
      const isMark = key.includes(':ended:');
      if (isMark) found.marks++;
      else if (key.startsWith('svc:caller:')) found.callers++;
      else if ((await redis.pttl(key)) === -1) found.permanent++;
      else found.expiring++;
      // All marks have the same size, and there are too many to ask for each.
      if (isMark && found.marks % 100 === 1) found.bytes += 100 * (await bytesOf(redis, key));
      if (key.startsWith('svc:caller:')) found.bytes += await bytesOf(redis, key);
    }
    const data = Number(/^used_memory_dataset:(\d+)/m.exec(await redis.info('memory'))?.[1]);
    return {
      [marks]: found.marks,
      [callers]: found.callers,
      'Redis: other keys that expire': found.expiring,
      'Redis: keys that do not expire': found.permanent,
      [usedMiB]: (data - found.bytes) / bytesPerMiB,
    };
  } finally {
    redis.disconnect();
  }
}

async function bytesOf(redis: Redis, key: string): Promise<number> {
  return ((await redis.memory('USAGE', key)) ?? placeBytes) - placeBytes;
}
