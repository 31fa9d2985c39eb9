import { z } from 'zod';
import { temporarilyUnavailable } from '../../errors.ts';
import { streamIdOf } from '../../jobs/usage-outbox.ts';
import { lanes } from '../../lane.ts';
import { loadScript, type Redis, redisUnavailable } from '../../redis/connections.ts';
import { keyCountersKey, leasesKey, outboxKey, outboxMarksKey, partitionOf } from '../../redis/keys.ts';
import { loadLua } from '../../redis/load-lua.ts';
import type { Store } from '../../store/store.ts';

const answerSchema = z.union([
  z.tuple([z.literal('more'), z.string(), z.int()]),
  z.tuple([z.literal('trimmed')]),
  z.tuple([z.literal('counted')]),
]);

/** Counts the month (`YYYY-MM`) of a further key in Redis. */
export type SeedKey = (key: { account: string; keyId: string; month: string }) => Promise<void>;

const dayMs = 86_400_000;
const entriesPerCall = 500;
/** As for the month of an account (seed.ts). */
const attemptsMax = 3;

/**
 * Counts the month of a key from the details in the store and the outbox entries, exactly, even while both change. An entry is in its
 * detail, or still in the outbox, or in both; it is counted once. Fails with `SERVICE_UNAVAILABLE`.
 */
export function createSeedKey({ redis, store }: { redis: Redis; store: Pick<Store, 'findKeyUsage'> }): SeedKey {
  const lua = loadLua(new URL('./seed-key.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcSeedKey', lua, numberOfKeys: 5 });

  async function attempt({ account, keyId, month }: Parameters<SeedKey>[0]): Promise<boolean> {
    const partition = partitionOf(account);
    // The mark is read first: entries drained before this are in the details.
    const from = (await redisUnavailable(redis.hget(outboxMarksKey(partition), 'drained'))) ?? '0-0';
    const details = await store.findKeyUsage({ account, keyId, month });
    const summedTo = details.map(({ day, model, endpoint, lastEntry }) => {
      return [`${Date.parse(day) / dayMs} ${model} ${endpoint}`, streamIdOf(lastEntry)];
    });
    const places = JSON.stringify(Object.fromEntries(summedTo));
    const leases = lanes.map((lane) => leasesKey(account, lane));
    const keys = [keyCountersKey(account, keyId), ...leases, outboxKey(partition), outboxMarksKey(partition)];
    let readTo = from;
    let used = details.reduce((sum, { counts }) => sum + counts.chargedTokens, 0);
    for (;;) {
      const args = [account, keyId, month, twoMonthsBefore(month), from, readTo, used, entriesPerCall, places];
      const answer = answerSchema.parse(await redisUnavailable(call(keys, args)));
      if (answer[0] !== 'more') return answer[0] === 'counted';
      [, readTo, used] = answer;
    }
  }

  return async function seedKey(key) {
    for (let attempts = 1; attempts <= attemptsMax; attempts++) if (await attempt(key)) return;
    throw temporarilyUnavailable(new Error('the outbox was trimmed faster than the month of a key could be counted'));
  };
}

function twoMonthsBefore(month: string): string {
  const [year = 0, number = 0] = month.split('-').map(Number);
  return new Date(Date.UTC(year, number - 3)).toISOString().slice(0, 7);
}
