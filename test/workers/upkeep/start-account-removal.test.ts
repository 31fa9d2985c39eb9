import test from 'ava';
import { startAccountRemoval } from '../../../workers/upkeep/start-completions.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test('every removal that has begun is completed, and one that fails does not block the others', async (t) => {
  const accounts = Array.from({ length: 250 }, (_, index) => `user:${String(index).padStart(3, '0')}`);
  const cleared: string[] = [];
  const { log, lines } = recordedLog();
  const passed = Promise.withResolvers<void>();
  await using _removing = startAccountRemoval({
    redis: own.redis,
    store: {
      async listRemovals({ after, limit }) {
        if (cleared.length >= accounts.length) passed.resolve();
        return accounts.filter((account) => account > after && !cleared.includes(account)).slice(0, limit);
      },
    },
    async clearAccount(account, at) {
      t.true(Math.abs(at.getTime() - Date.now()) < 60_000);
      cleared.push(account);
      if (account === 'user:100') throw new Error('away');
      return account !== 'user:101';
    },
    log,
    everyMs: 1,
  });
  await passed.promise;
  t.deepEqual(cleared, accounts);
  t.is(lines.filter(({ message }) => message === 'an account was removed').length, 248);
  t.like(lines.at(-1), { level: 'warn', message: 'an account was not removed; trying again' });
});
