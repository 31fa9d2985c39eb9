import test from 'ava';
import fc from 'fast-check';
import { controlStreamKey } from '../../../shared/redis/keys.ts';
import { createAssignAccounts, decodeAssignment } from '../../../workers/batches/schedule-accounts.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test('accounts arrive unchanged, with any characters in their names', async (t) => {
  const control = controlStreamKey('here');
  await own.redis.xadd(control, '*', 'opened', '1');
  const accounts = ['user:alice', 'user:名前', 'user:a,b"]\n', 'device:0'];
  t.true(await createAssignAccounts(own.redis)('here', accounts));
  const entries = await own.redis.xrange(control, '-', '+');
  const arrived = entries.flatMap(([, [name = '', value = '']]) => decodeAssignment({ [name]: value }));
  t.deepEqual(arrived, accounts);
});

test('an assignment to a worker that is gone fails, and leaves nothing in Redis', async (t) => {
  t.false(await createAssignAccounts(own.redis)('gone', ['user:alice']));
  t.is(await own.redis.exists(controlStreamKey('gone')), 0);
});

test('no other entry assigns an account', (t) => {
  for (const fields of [{}, { opened: '1' }, { request: 'req_1' }, { drain: '1,2' }, { line: '{"news":"started"}' }])
    t.deepEqual(decodeAssignment(fields), []);
  for (const accounts of ['', '{', '"user:alice"', '[1]', 'null', '{"0":"a"}'])
    t.deepEqual(decodeAssignment({ accounts }), []);
  fc.assert(fc.property(fc.string(), (accounts) => Array.isArray(decodeAssignment({ accounts }))));
});
