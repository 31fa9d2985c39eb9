import test from 'ava';
import { watchSuspensions } from '../../../shared/limits/watch-suspensions.ts';
import { versionKey } from '../../../shared/redis/keys.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { watchRedis } from '../../support/watch-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

/** Accounts at version 1, and a watch of them that looks as often as it can. */
function open(accounts: readonly string[]) {
  const suspended = new Set<string>();
  const versions = new Map(accounts.map((account) => [account, 1]));
  const looked: string[] = [];
  const watch = watchSuspensions({
    redis: own.redis,
    log: recordedLog().log,
    everyMs: 5,
    async look(account) {
      looked.push(account);
      const version = versions.get(account) ?? 0;
      await own.redis.set(versionKey(account), version);
      return { account, version, suspended: suspended.has(account) } as Caller; // the only fields that the watch reads
    },
  });
  /** Changes an account as production code does: its version is gone until it is read again. */
  async function change(account: string, isSuspended: boolean): Promise<void> {
    versions.set(account, (versions.get(account) ?? 0) + 1);
    if (isSuspended) suspended.add(account);
    else suspended.delete(account);
    await own.redis.del(versionKey(account));
  }
  return { watch, looked, change };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test.serial('everything that runs for a suspended account is stopped, and nothing of other accounts', async (t) => {
  const { watch, looked, change } = open(['user:a', 'user:b']);
  using _watch = watch;
  for (const account of ['user:a', 'user:b']) await own.redis.set(versionKey(account), 1);
  const stopped: string[] = [];
  watch.follow({ account: 'user:a', version: 1 }, () => stopped.push('a1'));
  const unfollow = watch.follow({ account: 'user:a', version: 1 }, () => stopped.push('a2'));
  watch.follow({ account: 'user:a', version: 1 }, () => stopped.push('a3'));
  watch.follow({ account: 'user:b', version: 1 }, () => stopped.push('b'));
  unfollow();
  await change('user:b', false);
  await until(() => looked.includes('user:b'));
  t.deepEqual(
    looked.filter((account) => account === 'user:a'),
    [],
    'an account at its known version is not looked at',
  );
  t.deepEqual(stopped, []);
  await change('user:a', true);
  await until(() => stopped.length >= 2);
  t.deepEqual([...new Set(stopped)].sort(), ['a1', 'a3']);
});

test.serial('an account of unknown version is looked at once, and again when it changes', async (t) => {
  const { watch, looked, change } = open(['user:c']);
  using _watch = watch;
  let stopped = 0;
  watch.follow({ account: 'user:c' }, () => void stopped++);
  await until(() => looked.length === 1);
  await using commands = await watchRedis(own.url);
  const seen = await commands.during(() => new Promise((resolve) => setTimeout(resolve, 50)));
  t.true(seen.some((command) => command.includes(versionKey('user:c'))));
  t.is(looked.length, 1);
  t.is(stopped, 0);
  await change('user:c', true);
  await until(() => stopped > 0);
  t.pass();
});

test.serial('the watch sends nothing to Redis while nothing runs', async (t) => {
  const { watch } = open(['user:d']);
  using _watch = watch;
  const unfollow = watch.follow({ account: 'user:d' }, () => {});
  unfollow();
  await using commands = await watchRedis(own.url);
  const seen = await commands.during(() => new Promise((resolve) => setTimeout(resolve, 50)));
  t.deepEqual(
    seen.filter((command) => command.some((argument) => argument.includes(':version:'))),
    [],
  );
});

test.serial('an account whose last request ends while its version is read is not looked at', async (t) => {
  const reading = Promise.withResolvers<void>();
  const read = Promise.withResolvers<void>();
  const redis = Object.assign(Object.create(own.redis), {
    async mget(keys: string[]) {
      reading.resolve();
      await read.promise;
      return own.redis.mget(keys);
    },
  });
  for (const account of ['user:h', 'user:i']) await own.redis.set(versionKey(account), 1);
  const looked: string[] = [];
  using watch = watchSuspensions({
    redis,
    log: recordedLog().log,
    everyMs: 5,
    async look(account) {
      looked.push(account);
      return { account, version: 1, suspended: false } as Caller;
    },
  });
  const unfollow = watch.follow({ account: 'user:h', version: 1 }, () => {});
  await reading.promise;
  unfollow();
  // The next account shows that the watch has compared the versions.
  watch.follow({ account: 'user:i' }, () => {});
  read.resolve();
  await until(() => looked.length > 0);
  t.deepEqual(looked, ['user:i']);
});

test.serial('a failed look is repeated', async (t) => {
  let looks = 0;
  using watch = watchSuspensions({
    redis: own.redis,
    log: recordedLog().log,
    everyMs: 5,
    async look(account) {
      looks++;
      if (looks < 3) throw new Error('the store is unavailable');
      return { account, version: 1, suspended: true } as Caller;
    },
  });
  let stopped = 0;
  watch.follow({ account: 'user:e' }, () => void stopped++);
  await until(() => stopped > 0);
  t.true(looks >= 3);
});

test.serial('a suspended account is not looked at again until something else runs for it', async (t) => {
  const { watch, looked, change } = open(['user:f', 'user:g']);
  using _watch = watch;
  let stopped = 0;
  watch.follow({ account: 'user:f', version: 1 }, () => void stopped++);
  await change('user:f', true);
  await until(() => stopped === 1);
  const before = looked.length;
  // Its version is gone again, and a second account shows that the watch has looked since.
  await change('user:f', true);
  watch.follow({ account: 'user:g' }, () => {});
  await until(() => looked.includes('user:g'));
  t.deepEqual(looked.slice(before), ['user:g']);
  watch.follow({ account: 'user:f', version: 1 }, () => void stopped++);
  await until(() => stopped === 2);
  t.pass();
});

test.serial('accounts whose looks fail do not block others', async (t) => {
  using watch = watchSuspensions({
    redis: own.redis,
    log: recordedLog().log,
    everyMs: 5,
    async look(account) {
      if (account !== 'user:last') throw new Error('the store is unavailable');
      return { account, version: 1, suspended: true } as Caller; // the only fields that the watch reads
    },
  });
  const stopped = Promise.withResolvers<void>();
  for (let number = 0; number < 150; number++) watch.follow({ account: `user:failing-${number}` }, () => {});
  watch.follow({ account: 'user:last' }, stopped.resolve);
  await stopped.promise;
  t.pass();
});
