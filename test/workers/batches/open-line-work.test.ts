import type { ExecutionContext } from 'ava';
import test from 'ava';
import { ApiError, temporarilyUnavailable } from '../../../shared/errors.ts';
import { partitionOf } from '../../../shared/redis/keys.ts';
import { createPartitionBreaker } from '../../../workers/batches/lines/admit-line.ts';

const account = 'user:ann';
const others = Array.from({ length: 1_000 }, (_, index) => `user:${index}`);
const neighbor = others.find((other) => partitionOf(other) === partitionOf(account)) ?? '';
const distant = others.find((other) => partitionOf(other) !== partitionOf(account)) ?? '';

function open(t: ExecutionContext) {
  let time = 0;
  let calls = 0;
  const callPartition = createPartitionBreaker(() => time);
  const call = (of: string, answer: Promise<string>) =>
    callPartition(of, () => {
      calls++;
      return answer;
    });
  return {
    pass: (ms: number) => {
      time += ms;
    },
    calls: () => calls,
    succeed: (of = account) => call(of, Promise.resolve('answer')),
    begin: (of = account) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      return { ended: call(of, promise), resolve };
    },
    fail: (of = account, error: Error = temporarilyUnavailable()) =>
      t.throwsAsync(call(of, Promise.reject(error)), { is: error }),
    async isRefused(of = account): Promise<boolean> {
      const before = calls;
      const error = await t.throwsAsync(call(of, Promise.resolve('')), { instanceOf: ApiError });
      return error.code === 'SERVICE_UNAVAILABLE' && calls === before;
    },
  };
}

test('after a failure no call is made for accounts of that partition, and calls for others are', async (t) => {
  const breaker = open(t);
  t.is(await breaker.succeed(), 'answer');
  await breaker.fail();
  t.true(await breaker.isRefused());
  t.true(await breaker.isRefused(neighbor));
  t.is(await breaker.succeed(distant), 'answer');
});

test('two seconds later one call is made, and all others once it has an answer', async (t) => {
  const breaker = open(t);
  await breaker.fail();
  breaker.pass(1_999);
  t.true(await breaker.isRefused());
  breaker.pass(1);
  const first = breaker.begin();
  t.true(await breaker.isRefused());
  first.resolve('answer');
  t.is(await first.ended, 'answer');
  t.is(await breaker.succeed(neighbor), 'answer');
});

test('if that call fails, the next one is made two seconds after it', async (t) => {
  const breaker = open(t);
  await breaker.fail();
  breaker.pass(2_000);
  await breaker.fail();
  t.is(breaker.calls(), 2);
  breaker.pass(1_999);
  t.true(await breaker.isRefused());
});

test('an error of another kind stops no calls', async (t) => {
  const breaker = open(t);
  await breaker.fail(account, new Error('a fault'));
  await breaker.fail(account, new ApiError('INTERNAL_ERROR', 'a fault'));
  t.is(await breaker.succeed(), 'answer');
});
