import test from 'ava';
import { entryOf } from '../../../shared/jobs/usage-outbox.ts';
import { redisNow } from '../../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey } from '../../../shared/redis/keys.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import { createRetryUnavailable, entryBefore, summedUpTo } from '../../../workers/usage/reconcile-month.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';

test('the entry before an id is the last one that sorts before it', (t) => {
  t.is(entryBefore('1700000000000-5'), entryOf('1700000000000-4'));
  t.is(entryBefore('1700000000000-0'), entryOf('1699999999999-9999999999'));
  t.true(entryBefore('1700000000000-0') < entryOf('1700000000000-0'));
});

test('it is before waiting entries and before now, and never before drained entries', async (t) => {
  await using own = await openRedisDatabase();
  const { redis } = own;
  const [outbox, marks] = [outboxKey(7), outboxMarksKey(7)];

  const from = await redisNow(redis);
  const ofNothing = await summedUpTo(redis, 7);
  t.true(ofNothing >= entryBefore(`${from}-0`) && ofNothing < entryOf(`${(await redisNow(redis)) + 1}-0`));

  for (const id of ['1000-0', '1000-1', '2000-0']) await redis.xadd(outbox, id, 'a', 'b');
  t.is(await summedUpTo(redis, 7), entryBefore('1000-0'));
  await redis.hset(marks, 'drained', '1000-0');
  t.is(await summedUpTo(redis, 7), entryOf('1000-0'));
  await redis.hset(marks, 'drained', '1000-1');
  t.is(await summedUpTo(redis, 7), entryBefore('2000-0'));
  await redis.hset(marks, 'drained', '2000-0');
  t.true((await summedUpTo(redis, 7)) >= ofNothing);

  const ahead = `${from + 3_600_000}-0`;
  await redis.hset(marks, 'drained', ahead);
  t.is(await summedUpTo(redis, 7), entryOf(ahead), 'its clock was set back');
});

const never = new AbortController().signal;

test('repeats a call that fails until it works', async (t) => {
  const retryUnavailable = createRetryUnavailable({ unavailableMsMax: 60_000, signal: never });
  let calls = 0;
  const work = async () => {
    calls += 1;
    if (calls < 3) throw storeUnavailable(new Error('away'));
    return 'there';
  };
  t.is(await retryUnavailable(work), 'there');
  t.is(calls, 3);
});

test('a call that keeps failing fails in the end with the same error', async (t) => {
  const away = storeUnavailable(new Error('away'));
  let calls = 0;
  const work = () => {
    calls += 1;
    return Promise.reject(away);
  };
  t.is(await t.throwsAsync(createRetryUnavailable({ unavailableMsMax: 100, signal: never })(work)), away);
  t.is(calls, 2);
});

test('an internal error is not retried, and no attempt begins after an abort', async (t) => {
  const fault = new TypeError('a fault');
  let calls = 0;
  const work = () => {
    calls += 1;
    return Promise.reject(fault);
  };
  t.is(await t.throwsAsync(createRetryUnavailable({ unavailableMsMax: 60_000, signal: never })(work)), fault);
  await t.throwsAsync(createRetryUnavailable({ unavailableMsMax: 60_000, signal: AbortSignal.abort() })(work), {
    name: 'AbortError',
  });
  t.is(calls, 1);
});

test('an abort ends the pause between two attempts', async (t) => {
  const stop = new AbortController();
  const retryUnavailable = createRetryUnavailable({ unavailableMsMax: 60_000, signal: stop.signal });
  const work = () => {
    setImmediate(() => stop.abort());
    return Promise.reject(storeUnavailable(new Error('away')));
  };
  await t.throwsAsync(retryUnavailable(work), { name: 'AbortError' });
});
