import test from 'ava';
import { createRequestsToEnd } from '../../../ingress/requests/requests-to-end.ts';
import { requestsToEndKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { watchRedis } from '../../support/watch-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});
test.beforeEach(() => own.redis.del(requestsToEndKey));
test.after.always(() => own?.[Symbol.asyncDispose]());

/** As on one ingress, which looks as often as it can. */
const open = () => createRequestsToEnd({ redis: own.redis, log: recordedLog().log, everyMs: 5 });
const at = new Date('2026-03-01T12:00:00Z');

test.serial('a request ends on whichever ingress it is, once, and no other one does', async (t) => {
  using one = open();
  using other = open();
  const ended: string[] = [];
  const done = Promise.withResolvers<void>();
  other.follow('req_1', () => ended.push('req_1'));
  other.follow('req_2', () => ended.push('req_2'));
  one.follow('req_3', () => {
    ended.push('req_3');
    done.resolve();
  });
  await one.add(['req_1'], at);
  while (ended.length === 0) await new Promise((resolve) => setImmediate(resolve));
  t.deepEqual(ended, ['req_1']);
  await one.add(['req_1'], at);
  await one.add(['req_3'], at);
  await done.promise;
  t.deepEqual(ended, ['req_1', 'req_3']);
});

test.serial('the requests of a key end together, on each ingress, and those of another key continue', async (t) => {
  using one = open();
  using other = open();
  const ended: string[] = [];
  one.follow('key_1', () => ended.push('first'));
  one.follow('key_2', () => ended.push('of another key'));
  const leave = one.follow('key_1', () => ended.push('gone'));
  leave();
  const done = [one, other].map((on) => new Promise<void>((resolve) => void on.follow('key_1', resolve)));
  t.false(await other.has('key_1'));
  await other.add(['key_0', 'key_1'], at);
  await Promise.all(done);
  t.deepEqual(ended, ['first']);
  t.true(await one.has('key_1'));
  t.false(await one.has('key_2'));
});

test.serial('a request that is followed only after an operator has ended it ends, too', async (t) => {
  using requests = open();
  await requests.add(['req_1'], at);
  await new Promise<void>((resolve) => void requests.follow('req_1', resolve));
  t.pass();
});

test.serial('a request that is no longer followed is not ended', async (t) => {
  using requests = open();
  const unfollow = requests.follow('req_1', () => t.fail());
  unfollow();
  await requests.add(['req_1'], at);
  await requests.add(['req_2'], at);
  await new Promise<void>((resolve) => void requests.follow('req_2', resolve));
  t.pass();
});

test.serial('an id is kept for a minute, and all of them expire', async (t) => {
  using requests = open();
  await requests.add(['req_1'], at);
  await requests.add(['req_2'], new Date(at.getTime() + 60_000 - 1));
  t.deepEqual(await own.redis.zrange(requestsToEndKey, '0', '-1'), ['req_1', 'req_2']);
  await requests.add(['req_3'], new Date(at.getTime() + 60_000));
  t.deepEqual(await own.redis.zrange(requestsToEndKey, '0', '-1'), ['req_2', 'req_3']);
  const lifeMs = await own.redis.pttl(requestsToEndKey);
  t.true(lifeMs > 0 && lifeMs <= 60_000, String(lifeMs));
});

test.serial('a failed look is repeated', async (t) => {
  let looks = 0;
  const redis = Object.assign(Object.create(own.redis), {
    async zrange() {
      looks += 1;
      if (looks < 3) throw new Error('Redis is unavailable');
      return ['req_1'];
    },
  });
  using requests = createRequestsToEnd({ redis, log: recordedLog().log, everyMs: 5 });
  await new Promise<void>((resolve) => void requests.follow('req_1', resolve));
  t.is(looks, 3);
});

test.serial('nothing is sent to Redis while nothing runs', async (t) => {
  using requests = open();
  requests.follow('req_1', () => {})();
  await using commands = await watchRedis(own.url);
  const seen = await commands.during(() => new Promise((resolve) => setTimeout(resolve, 50)));
  t.deepEqual(
    seen.filter((command) => command.includes(requestsToEndKey)),
    [],
  );
});
