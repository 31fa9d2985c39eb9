import test from 'ava';
import { storeUnavailable } from '../../../shared/store/documents/store-errors.ts';
import { claimCode, type TopUpCode } from '../../../shared/store/top-up-codes/top-up-code.ts';
import { startCodeCompletion } from '../../../workers/upkeep/start-completions.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { topUpCodeOf } from '../../shared/store/top-up-code-records.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

type Wishes = {
  /** How many seconds ago each code was claimed. */
  claimedS: readonly number[];
  fails?: (index: number) => boolean;
};

/** Makes one pass over codes, numbered in order, and returns the numbers of those that were tried. */
async function completeOnce({ claimedS, fails = () => false }: Wishes) {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const now = Date.now();
  const codes = claimedS.map((_, index) => topUpCodeOf({ id: `tuc_${String(index).padStart(26, '0')}` }));
  await store.topUpCodes.insertCodes([...codes, topUpCodeOf()]);
  for (const [index, code] of codes.entries()) {
    const at = new Date(now - (claimedS[index] ?? 0) * 1_000);
    await store.topUpCodes.changeCode(code.id, claimCode({ account: `user:${index}`, at, from: '::1' }));
  }
  const tried: number[] = [];
  const times: Date[] = [];
  const { log, lines } = recordedLog();
  const passed = Promise.withResolvers<void>();
  const { topUpCodes } = store;
  let passes = 0;
  await using _completing = startCodeCompletion({
    redis: own.redis,
    codes: {
      async listClaimedCodes(page) {
        if (page.after === '') passes += 1;
        if (passes > 1) passed.resolve();
        return passes > 1 ? [] : topUpCodes.listClaimedCodes(page);
      },
    },
    async applyTopUpCode({ id }: TopUpCode, { at }) {
      const index = codes.findIndex((code) => code.id === id);
      tried.push(index);
      times.push(at);
      if (fails(index)) throw storeUnavailable(new Error('away'));
      return undefined;
    },
    log,
    everyMs: 1,
  });
  await passed.promise;
  return { tried, times, lines, now };
}

test('codes that were claimed a while ago are applied, at the time of Redis; those of the last moments are not', async (t) => {
  const { tried, times, lines, now } = await completeOnce({ claimedS: [11, 0, 3_600] });
  t.deepEqual(tried, [0, 2]);
  for (const at of times) t.true(Math.abs(at.getTime() - now) < 60_000);
  t.deepEqual(lines, [{ level: 'info', fields: { codes: 2 }, message: 'redeemed top-up codes were completed' }]);
});

test('more codes than a page are all applied', async (t) => {
  const { tried } = await completeOnce({ claimedS: Array.from({ length: 201 }, () => 60) });
  t.deepEqual(
    tried,
    Array.from({ length: 201 }, (_, index) => index),
  );
});

test('a code that fails does not block the others, and the failure is reported', async (t) => {
  const { tried, lines } = await completeOnce({ claimedS: [60, 60, 60], fails: (index) => index === 0 });
  t.deepEqual(tried, [0, 1, 2]);
  t.like(lines, [
    { level: 'info', fields: { codes: 2 } },
    { level: 'warn', message: 'top-up codes were not completed; trying again' },
  ]);
});

test('without claimed codes nothing is logged', async (t) => {
  const { tried, lines } = await completeOnce({ claimedS: [] });
  t.deepEqual([tried, lines], [[], []]);
});
