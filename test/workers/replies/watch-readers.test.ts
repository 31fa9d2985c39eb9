import test from 'ava';
import { existingKeys } from '../../../shared/redis/connections.ts';
import { watchReaders } from '../../../workers/replies/watch-readers.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { watchRedis } from '../../support/watch-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

const streams = Array.from({ length: 100 }, (_, index) => `svc:reply-frames:${index}`);

/** Runs with each of these reply streams, which exist. */
async function open() {
  for (const stream of streams) await own.redis.xadd(stream, '*', 'opened', '1');
  const watch = watchReaders({ redis: own.redis, log: recordedLog().log, everyMs: 10 });
  const gone: string[] = [];
  const unfollow = streams.map((stream) => watch.follow(stream, () => gone.push(stream)));
  return { watch, gone, unfollow };
}

test.serial('the streams of all ingresses are checked by one command, and only while runs are followed', async (t) => {
  const { watch: readers, gone, unfollow } = await open();
  using _readers = readers;
  await using watch = await watchRedis(own.url);
  const looked = async () => {
    const seen = await watch.during(() => new Promise((resolve) => setTimeout(resolve, 50)));
    return seen.filter((command) => command.some((argument) => streams.includes(argument)));
  };
  let looks = await looked();
  while (looks.length === 0) looks = await looked(); // a busy machine needs more time
  for (const [name, ...keys] of looks) t.deepEqual([name?.toLowerCase(), keys], ['exists', streams]);
  t.deepEqual(gone, []);
  for (const end of unfollow) end();
  await looked(); // the check in progress
  t.deepEqual(await looked(), []);
});

test.serial('only the runs of an ingress that is gone are notified', async (t) => {
  const { watch, gone, unfollow } = await open();
  using _watch = watch;
  const notified = Promise.withResolvers<void>();
  watch.follow('svc:reply-frames:7', notified.resolve);
  unfollow[8]?.();
  await own.redis.del('svc:reply-frames:7', 'svc:reply-frames:8');
  await notified.promise;
  t.deepEqual([...new Set(gone)], ['svc:reply-frames:7']);
});

for (const [existing, commands] of [
  [0, 1],
  [1, 101],
  [99, 101],
  [100, 1],
] as const) {
  test.serial(`of 100 keys, the ${existing} that exist are found by ${commands} commands`, async (t) => {
    const keys = Array.from({ length: 100 }, (_, index) => `key-${index}-of-${existing}`);
    await using own = await openRedisDatabase();
    for (const key of keys.slice(100 - existing)) await own.redis.zadd(key, 0, '0');
    await using watch = await watchRedis(own.url);
    let found: ReadonlySet<string> = new Set();
    const asked = await watch.during(async () => {
      found = await existingKeys(own.redis, keys);
    });
    t.deepEqual([...found], keys.slice(100 - existing));
    t.is(asked.filter(([, key = '']) => keys.includes(key)).length, commands);
  });
}

test('no command is sent for no keys', async (t) => {
  t.deepEqual(await existingKeys({} as never, []), new Set()); // any command would fail
});
