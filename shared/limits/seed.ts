import { z } from 'zod';
import { temporarilyUnavailable } from '../errors.ts';
import { isLaterEntry, streamIdOf } from '../jobs/usage-outbox.ts';
import { storedJson } from '../json/stored-values.ts';
import { type Redis, redisUnavailable } from '../redis/connections.ts';
import { countersKey, keyCountersKey, leasesKey, outboxKeysOf, partitionOf } from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import type { UsageStore } from '../store/usage/usage-store.ts';

const script = loadLua(new URL('./seed.lua', import.meta.url), {
  keys: 'countersKey leasesKey batchLeasesKey outboxKey outboxMarksKey',
  args: 'account month mode from readTo chargedTokens overageTokens entriesMax key? details? goneMonth?',
});
/** As text, because JSON of a script has only the first 14 digits of a number. */
const tokens = z
  .string()
  .regex(/^-?\d{1,16}$/)
  .transform(Number);
const tokensSchema = z.object({ chargedTokens: tokens, reservedTokens: tokens, overageTokens: tokens });
const answerSchema = storedJson.pipe(
  z.discriminatedUnion('outcome', [
    z.object({ outcome: z.literal('more'), readTo: z.string(), chargedTokens: tokens, overageTokens: tokens }),
    z.object({ outcome: z.literal('trimmed') }),
    z.object({ outcome: z.literal('counted'), before: tokensSchema.optional(), after: tokensSchema }),
  ]),
);

/** A holder of limits: an account, or a further key of it that has limits of its own. */
export type Holder = { account: string; keyId?: string | undefined };

/** Tokens of a month: charged, reserved by leases, and charged as overage. */
export type MonthTokens = z.infer<typeof tokensSchema>;

/** `before` is what Redis had counted, undefined if it counted nothing; `after` is the sum of the store and the outbox. */
type SeedOutcome = { before: MonthTokens | undefined; after: MonthTokens };

/** `count` counts a month in Redis; `compare` changes nothing; `replace` corrects the counters of a month that Redis counts. */
export type Seed = (holder: Holder, month: string, mode?: 'count' | 'compare' | 'replace') => Promise<SeedOutcome>;

const dayMs = 86_400_000;
const entriesPerCall = 500;
/** Trimming stays 10 s behind draining, so a seeding that it overtakes was delayed. Three attempts allow for that to happen twice. */
const attemptsMax = 3;

/** What the store has counted of a month, and up to where: of a key, each detail has its own last entry. */
type StoredMonth = { chargedTokens: number; overageTokens: number; lastEntry?: string | undefined; details?: string };

/**
 * Counts a month from the store's sums and the outbox entries, exactly, even while both change: the last entries are read in the same step
 * that sets the counter (contract.md#n12-seeding, decisions.md#seeding-from-store-and-outbox). Fails with `SERVICE_UNAVAILABLE`.
 */
export function createSeed(deps: { redis: Redis; store: Pick<UsageStore, 'findUsageSum' | 'findKeyUsage'> }): Seed {
  const { redis, store } = deps;
  const call = loadScript(redis, script);

  async function storedOf({ account, keyId }: Holder, month: string): Promise<StoredMonth> {
    if (keyId === undefined) {
      const sum = await store.findUsageSum(account, month);
      const { chargedTokens = 0, overageTokens = 0 } = sum?.total ?? {};
      return { chargedTokens, overageTokens, lastEntry: sum?.lastEntry };
    }
    const found = await store.findKeyUsage({ account, keyId, month });
    const places = found.map(({ start: day, model, endpoint, lastEntry }) => {
      return [`${Date.parse(day) / dayMs} ${model} ${endpoint}`, streamIdOf(lastEntry)];
    });
    const chargedTokens = found.reduce((sum, { counts }) => sum + counts.chargedTokens, 0);
    return { chargedTokens, overageTokens: 0, details: JSON.stringify(Object.fromEntries(places)) };
  }

  async function attempt(holder: Holder, month: string, mode: string): Promise<SeedOutcome | undefined> {
    const { account, keyId } = holder;
    const keys = {
      countersKey: keyId === undefined ? countersKey(account) : keyCountersKey(account, keyId),
      leasesKey: leasesKey(account),
      batchLeasesKey: leasesKey(account, 'batch'),
      ...outboxKeysOf(partitionOf(account)),
    };
    // The mark is read first: entries drained after this are in the store's sums, in the outbox, or in both.
    const drained = (await redisUnavailable(redis.hget(keys.outboxMarksKey, 'drained'))) ?? '0-0';
    const { lastEntry, details, ...stored } = await storedOf(holder, month);
    const summed = lastEntry === undefined ? '0-0' : streamIdOf(lastEntry);
    const from = isLaterEntry(summed, drained) ? summed : drained;
    const ofKey = keyId === undefined ? {} : { key: keyId, details, goneMonth: twoMonthsBefore(month) };
    let counted = { readTo: from, ...stored };
    for (;;) {
      const args = { account, month, mode, from, ...counted, entriesMax: entriesPerCall, ...ofKey };
      const answer = answerSchema.parse(await redisUnavailable(call({ ...keys, ...args })));
      if (answer.outcome === 'trimmed') return undefined;
      if (answer.outcome === 'counted') return { before: answer.before, after: answer.after };
      counted = answer;
    }
  }

  return async function seed(holder, month, mode = 'count') {
    for (let attempts = 1; attempts <= attemptsMax; attempts++) {
      const seeded = await attempt(holder, month, mode);
      if (seeded !== undefined) return seeded;
    }
    throw temporarilyUnavailable(new Error('the outbox was trimmed faster than a month could be counted'));
  };
}

function twoMonthsBefore(month: string): string {
  const [year = 0, number = 0] = month.split('-').map(Number);
  return new Date(Date.UTC(year, number - 3)).toISOString().slice(0, 7);
}
