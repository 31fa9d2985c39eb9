import { z } from 'zod';
import { temporarilyUnavailable } from '../../errors.ts';
import { isLaterEntry, streamIdOf } from '../../jobs/usage-outbox.ts';
import { lanes } from '../../lane.ts';
import { loadScript, type Redis, redisUnavailable } from '../../redis/connections.ts';
import { countersKey, leasesKey, outboxKey, outboxMarksKey, partitionOf } from '../../redis/keys.ts';
import { loadLua } from '../../redis/load-lua.ts';
import type { Store } from '../../store/store.ts';

const tokensSchema = z.tuple([z.int(), z.int(), z.int()]);
const answerSchema = z.union([
  z.tuple([z.literal('more'), z.string(), z.int(), z.int()]),
  z.tuple([z.literal('trimmed')]),
  z.tuple([z.literal('counted'), z.union([tokensSchema, z.tuple([])]), tokensSchema]),
]);

/** Tokens of a month: used, reserved by leases, and used as overage. */
export type MonthTokens = { used: number; reserved: number; overage: number };

/** `before` is what Redis had counted, undefined if it counted nothing; `after` is the sum of the store and the outbox. */
type Seeded = { before: MonthTokens | undefined; after: MonthTokens };

/** `seed` counts a month that Redis does not count; `compare` changes nothing; `replace` corrects the counters in Redis. */
export type Seed = (account: string, month: string, mode?: 'seed' | 'compare' | 'replace') => Promise<Seeded>;

const entriesPerCall = 500;
/** Trimming stays 10 s behind draining, so a seeding that it overtakes was delayed. Three attempts allow for that to happen twice. */
const attemptsMax = 3;

/**
 * Counts a month from the store's sum and the outbox entries, exactly, even while both change: the last entries are read in the same step
 * that sets the counter (contract.md#n12-seeding, decisions.md#seeding-from-store-and-outbox). Fails with `SERVICE_UNAVAILABLE`.
 */
export function createSeed({ redis, store }: { redis: Redis; store: Pick<Store, 'findUsageSum'> }): Seed {
  const lua = loadLua(new URL('./seed.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcSeed', lua, numberOfKeys: 5 });

  async function attempt(account: string, month: string, mode: string): Promise<Seeded | undefined> {
    const partition = partitionOf(account);
    // The mark is read first: entries drained after this are in the store's sum, in the outbox, or in both.
    const drained = (await redisUnavailable(redis.hget(outboxMarksKey(partition), 'drained'))) ?? '0-0';
    const sum = await store.findUsageSum(account, month);
    const summed = sum === undefined ? '0-0' : streamIdOf(sum.lastEntry);
    const from = isLaterEntry(summed, drained) ? summed : drained;
    const leases = lanes.map((lane) => leasesKey(account, lane));
    const keys = [countersKey(account), ...leases, outboxKey(partition), outboxMarksKey(partition)];
    let readTo = from;
    let used = sum?.total.chargedTokens ?? 0;
    let overage = sum?.total.overageTokens ?? 0;
    for (;;) {
      const args = [account, month, mode, from, readTo, used, overage, entriesPerCall];
      const answer = answerSchema.parse(await redisUnavailable(call(keys, args)));
      if (answer[0] === 'trimmed') return undefined;
      if (answer[0] === 'counted') return { before: monthTokens(answer[1]), after: tokensOf(answer[2]) };
      [, readTo, used, overage] = answer;
    }
  }

  return async function seed(account, month, mode = 'seed') {
    for (let attempts = 1; attempts <= attemptsMax; attempts++) {
      const seeded = await attempt(account, month, mode);
      if (seeded !== undefined) return seeded;
    }
    throw temporarilyUnavailable(new Error('the outbox was trimmed faster than a month could be counted'));
  };
}

function monthTokens(tokens: [] | [number, number, number]): MonthTokens | undefined {
  return tokens.length === 0 ? undefined : tokensOf(tokens);
}

function tokensOf([used, reserved, overage]: [number, number, number]): MonthTokens {
  return { used, reserved, overage };
}
