import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { ErrorCode } from '../../shared/errors.ts';
import { refusalFields } from '../../shared/jobs/usage-outbox.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { outboxKey, partitionOf } from '../../shared/redis/keys.ts';
import { hourOf } from '../../shared/store/usage/usage-store.ts';
import type { Refusals } from '../../shared/store/usage/usage-tables.ts';

/** `account` and `keyId` are empty if the caller is not known. */
type Refusal = { account: string; keyId: string; code: ErrorCode };
type RefusalCount = Omit<Refusals, 'entry'>;

const writeEveryMsUsual = 10_000;
/** Further ones are counted without account and key, to bound memory. */
const placesMaxUsual = 10_000;
/** A drainer reads 500 entries at once, and holds all that they say. */
const refusalsPerEntryMax = 200;
const closeMs = 1_000;

/**
 * Counts requests that were refused before they were admitted, and adds them to the outboxes every ten seconds, each at most once: what is
 * lost with a process, or while Redis or the store is away, is not added again (contract.md#r13-hours).
 */
export function createRefusalCounts({
  redis,
  outboxLengthMax,
  log,
  now = Date.now,
  writeEveryMs = writeEveryMsUsual,
  placesMax = placesMaxUsual,
}: {
  redis: Redis;
  outboxLengthMax: number;
  log: Pick<Log, 'debug'>;
  now?: () => number;
  writeEveryMs?: number;
  placesMax?: number;
}) {
  let counts = new Map<string, RefusalCount>();

  async function write(): Promise<void> {
    const taken = [...counts.values()];
    counts = new Map();
    const entries = Map.groupBy(taken, ({ account }) => partitionOf(account));
    await Promise.all([...entries].map(([partition, refusals]) => append(partition, refusals)));
  }

  async function append(partition: number, refusals: readonly RefusalCount[]): Promise<void> {
    try {
      const stream = outboxKey(partition);
      for (let from = 0; from < refusals.length; from += refusalsPerEntryMax) {
        if ((await redis.xlen(stream)) >= outboxLengthMax) return;
        const fields = refusalFields(refusals.slice(from, from + refusalsPerEntryMax));
        await redis.xadd(stream, '*', ...Object.entries(fields).flat());
      }
    } catch (error) {
      log.debug({ err: error, partition }, 'counts of refused requests were lost');
    }
  }

  const writing = repeatWhile({
    everyMs: writeEveryMs,
    work: write,
    isNeeded: () => counts.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'counts of refused requests were not written'),
  });

  return {
    count({ account, keyId, code }: Refusal): void {
      const start = hourOf(now());
      const known = { account, start, keyId, code };
      const place = counts.size < placesMax || counts.has(idOf(known)) ? known : { ...known, account: '', keyId: '' };
      const counted = counts.get(idOf(place)) ?? { ...place, requests: 0 };
      counted.requests += 1;
      counts.set(idOf(place), counted);
      writing.begin();
    },
    async [Symbol.asyncDispose]() {
      writing[Symbol.dispose]();
      await within(closeMs, write());
    },
  };
}

export type RefusalCounts = ReturnType<typeof createRefusalCounts>;

function idOf({ account, start, keyId, code }: Omit<RefusalCount, 'requests'>): string {
  return JSON.stringify([account, start, keyId, code]);
}
