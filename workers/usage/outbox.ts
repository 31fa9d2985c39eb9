import { z } from 'zod';
import { storedJson } from '../../shared/json/stored-values.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { outboxKeysOf, outboxMarksKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const keys = 'outboxKey outboxMarksKey';
const readLua = loadLua(new URL('./read-outbox.lua', import.meta.url), { keys });
const trimLua = loadLua(new URL('./trim-outbox.lua', import.meta.url), { keys, args: 'last' });
const markLua = loadLua(new URL('./mark-drained.lua', import.meta.url), { keys: 'outboxMarksKey', args: 'upTo' });

const answerSchema = storedJson.pipe(
  z.object({ length: z.number(), oldest: z.string(), upTo: z.string(), now: z.number() }),
);

/**
 * `waitingMs`: how long the oldest entry that is not in the store has waited, in milliseconds; 0 if there is none. `upTo`: the stream id up
 * to which all entries are in the store.
 */
type OutboxStats = { length: number; waitingMs: number; upTo: string };

export function createReadOutbox(redis: Redis): (partition: number) => Promise<OutboxStats> {
  const run = loadScript(redis, readLua);
  return async (partition) => {
    const { length, oldest, upTo, now } = answerSchema.parse(await run(outboxKeysOf(partition)));
    return { length, waitingMs: oldest === '' ? 0 : Math.max(0, now - Number.parseInt(oldest, 10)), upTo };
  };
}

/** Call it only when the store has every entry of the partition's outbox up to this stream id. */
type MarkDrained = (partition: number, streamId: string) => Promise<void>;

export function createMarkDrained(redis: Redis): MarkDrained {
  const run = loadScript(redis, markLua);
  return async (partition, upTo) => {
    await run({ outboxMarksKey: outboxMarksKey(partition), upTo });
  };
}

/** Removes the entries up to this stream id from the partition's outbox, as far as they are drained. */
export type TrimOutbox = (partition: number, streamId: string) => Promise<void>;

export function createTrimOutbox(redis: Redis): TrimOutbox {
  const run = loadScript(redis, trimLua);
  return async (partition, last) => {
    await run({ ...outboxKeysOf(partition), last });
  };
}

type Partition = { latest: string; waiting: { upTo: string; since: number }[] };

/** `now`: a monotonic clock in milliseconds. For entries that other workers drained, the time starts when this worker sees it. */
export function createTrimSchedule({ afterMs, now }: { afterMs: number; now: () => number }) {
  const partitions = new Map<number, Partition>();
  return {
    /** Records that the partition's outbox is in the store up to this stream id. */
    note(partition: number, upTo: string): void {
      const { latest, waiting } = partitions.get(partition) ?? { latest: undefined, waiting: [] };
      if (latest === upTo) return;
      // Only the next one due and the latest are kept.
      const next = waiting.slice(0, 1);
      partitions.set(partition, { latest: upTo, waiting: [...next, { upTo, since: now() }] });
    },
    /** The stream id up to which the outbox may be trimmed now. */
    due(partition: number): string | undefined {
      const [next] = partitions.get(partition)?.waiting ?? [];
      if (next === undefined || now() - next.since < afterMs) return undefined;
      return next.upTo;
    },
    /** What was due is trimmed. */
    trimmed(partition: number): void {
      partitions.get(partition)?.waiting.shift();
    },
  };
}

/**
 * Decides when drained entries may be trimmed. They stay for a while, because a process that seeds an account's counter reads the store
 * first, and then the newer entries of the outbox (contract.md#n12-seeding).
 */
export type TrimSchedule = ReturnType<typeof createTrimSchedule>;
