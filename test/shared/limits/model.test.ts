import test from 'ava';
import fc from 'fast-check';
import { createLimitsPair } from '../../support/limits-pair.ts';
import { allowances, steps } from '../../support/limits-steps.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';
import { sized } from '../../support/size.ts';

/** Start times: an ordinary day, then the last moments before a new month, a new year and a leap day. */
const beginnings = [
  Date.UTC(2030, 4, 15, 12),
  Date.UTC(2030, 5, 30, 23, 59, 30),
  Date.UTC(2030, 11, 31, 23, 59, 58),
  Date.UTC(2032, 1, 28, 23, 59, 59, 999),
];

const parts = new AsyncDisposableStack();
let own: RedisDatabase;
let accounts = 0;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = parts.use(await openRedisDatabase());
  setTime = replaceClock(own.redis);
});

test.after.always(() => parts.disposeAsync());

const sequences = sized(120, 250);

test.serial('for any sequence of calls, every answer and every record match the model', async (t) => {
  t.timeout(180_000);
  const seen = new Map<string, number>();
  let taken = 0;
  const property = fc.asyncProperty(
    fc.constantFrom(...beginnings),
    allowances,
    fc.array(steps, { minLength: 1, maxLength: 120, size: 'max' }),
    async (beginning, allowance, sequence) => {
      const account = `user:model ${accounts++}`;
      const pair = createLimitsPair({ redis: own.redis, setTime, account, beginning, allowance });
      await pair.prepare();
      for (const step of sequence) {
        const answered = await pair.take(step);
        for (const answer of answered) seen.set(answer, (seen.get(answer) ?? 0) + 1);
        taken += 1;
      }
      await pair.finish();
    },
  );
  const missing = () => everyAnswer.filter((answer) => !seen.has(answer));
  let drawn = 0;
  // Some answers are rare: if one has not occurred by chance, more sequences are drawn.
  while (drawn === 0 || (missing().length > 0 && drawn < 5 * sequences)) {
    await fc.assert(property, { numRuns: sequences, includeErrorInReport: true });
    drawn += sequences;
  }
  t.log(`${taken} steps; ${[...seen].map(([answer, count]) => `${answer}: ${count}`).join(', ')}`);
  t.true(taken > 16 * drawn, `${taken} steps`);
  t.deepEqual(missing(), [], 'answers that never occurred');
});

/** Every answer that must occur: a comparison without one of them proves nothing about it. */
const everyAnswer = [
  ...['admit admitted', 'admit admitted as overage', 'admit ended', 'admit cold', 'admit stale'],
  ...['quota', 'requests', 'tokens', 'day', 'concurrency', 'idempotency'].map((limit) => `admit refused by ${limit}`),
  ...['admit refused beyond overage', 'admit refused at the bound of overage', 'settle overage'],
  ...['running', 'kept', 'lost', 'mismatch'].map((how) => `admit repeated as ${how}`),
  'admit repeated and counted',
  ...['run', 'late', 'expired', 'interrupted', 'settled', 'gone', 'superseded'].map((outcome) => `start ${outcome}`),
  ...['settle true', 'settle false', 'release released', 'release started', 'release ended'],
  ...['release released after its start', 'end lines some', 'line admitted'],
  ...['line refused by quota', 'line refused by concurrency'],
  ...['end leases some', 'compare counted', 'compare not counted'],
];
