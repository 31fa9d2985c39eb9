import { z } from 'zod';
import { pauseToBeat } from '../concurrency/at-beat.ts';
import { within } from '../concurrency/shutdown.ts';
import type { Log } from '../process/log.ts';
import { type Redis, redisNow } from '../redis/connections.ts';
import { sharesExpiryKey, sharesKey } from '../redis/keys.ts';
import type { FleetCounts } from './fleet-counts.ts';
import type { createNoteProcess, FleetProcess, ProcessLoad, ProcessNote } from './note-process.ts';

const noteEveryMs = 2_000;
/** While this process waits for another one. */
const noteSoonMs = 250;
const leaveMs = 500;

/** Notes this process at a regular interval until it is disposed of. */
export function followFleet({
  noteProcess: { note, leave },
  describe,
  load,
  counts,
  onNoted,
  isWaiting,
  log,
  pause = pauseToBeat,
}: {
  noteProcess: Pick<ReturnType<typeof createNoteProcess>, 'note' | 'leave'>;
  describe: () => ProcessNote;
  load: () => ProcessLoad;
  counts: Pick<FleetCounts, 'take'>;
  /** The processes that are alive. Not called while Redis is unavailable. */
  onNoted: (processes: readonly FleetProcess[]) => void;
  /** Whether this process waits for a change of another one. */
  isWaiting: () => boolean;
  log: Pick<Log, 'warn'>;
  /** Ends early, and does not fail, when the signal is aborted. */
  pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}) {
  const closing = new AbortController();
  const first = Promise.withResolvers<void>();
  let soon = Promise.withResolvers<void>();
  let processes: readonly FleetProcess[] = [];
  let isFailing = false;

  async function noteOnce(): Promise<void> {
    try {
      processes = await note(describe(), load(), counts.take());
      isFailing = false;
      if (!closing.signal.aborted) onNoted(processes);
    } catch (error) {
      if (!isFailing && !closing.signal.aborted)
        log.warn({ err: error }, 'this process was not made known to the others');
      isFailing = true;
    }
    first.resolve();
  }

  async function noteUntilClosed(): Promise<void> {
    while (!closing.signal.aborted) {
      soon = Promise.withResolvers();
      await noteOnce();
      await Promise.race([pause(isWaiting() ? noteSoonMs : noteEveryMs, closing.signal), soon.promise]);
    }
  }

  const repeating = noteUntilClosed();
  return {
    /** The processes that are alive, including this one, as of the last answer of Redis. */
    processes: (): readonly FleetProcess[] => processes,
    /** This process has changed: the others learn of it as soon as possible. */
    changed: (): void => soon.resolve(),
    /** Resolves once this process was noted for the first time, or could not be. */
    noted: first.promise,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(leaveMs, repeating);
      await within(
        leaveMs,
        leave(describe().id).catch(() => {}),
      );
    },
  };
}

/** Makes this process known to the others, and knows them. */
export type Fleet = ReturnType<typeof followFleet>;

/** Lists the ids of the workers that are alive and take jobs: those of a pool, or all. */
export type ListWorkers = (pool?: string) => Promise<string[]>;

const workerSchema = z.object({ pools: z.union([z.array(z.string()), z.object({})]) });
/** The queue dashboard asks for each of its queues at once, and the metrics ask for each pool. */
const freshMs = 1_000;

/** Reads the workers that announce themselves when they renew their shares of backends (`workers/fleet-limits`). */
export function createListWorkers(redis: Redis): ListWorkers {
  let latest: { at: number; workers: Promise<{ id: string; pools: string[] }[]> } | undefined;

  async function read(): Promise<{ id: string; pools: string[] }[]> {
    const now = await redisNow(redis, sharesExpiryKey());
    const ids = await redis.zrangebyscore(sharesExpiryKey(), `(${now}`, '+inf');
    if (ids.length === 0) return [];
    const texts = await redis.hmget(sharesKey(), ...ids.map((id) => `worker ${id}`));
    return ids.map((id, index) => ({ id, pools: poolsOf(texts[index] ?? '{"pools":[]}') }));
  }

  return async function listWorkers(pool) {
    if (latest === undefined || performance.now() - latest.at > freshMs)
      latest = { at: performance.now(), workers: read() };
    const serves = (pools: readonly string[]) => (pool === undefined ? pools.length > 0 : pools.includes(pool));
    return (await latest.workers).filter(({ pools }) => serves(pools)).map(({ id }) => id);
  };
}

/** Lua writes an empty list as an object. */
function poolsOf(text: string): string[] {
  const { pools } = workerSchema.parse(JSON.parse(text));
  return Array.isArray(pools) ? pools : [];
}
