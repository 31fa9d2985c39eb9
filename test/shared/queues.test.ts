import test from 'ava';
import { unchallengedMs, workerOptions } from '../../shared/queues.ts';
import { connectForWork } from '../../shared/redis.ts';
import { openRedisDatabase } from '../support/private-redis.ts';
import { recordedLog } from '../support/recorded-log.ts';

test('a network gone silent is noticed before a lock ends, an idle take never looks like one, and a dead worker is noticed within 15 s', async (t) => {
  await using own = await openRedisDatabase();
  const connection = connectForWork(own.url, recordedLog().log);
  t.teardown(() => connection.disconnect());
  const silenceMs = connection.options.socketTimeout ?? Number.NaN;
  const {
    lockDuration = 0,
    lockRenewTime = 0,
    stalledInterval = 0,
    drainDelay = 0,
  } = workerOptions('a', connection, 1);
  t.true(drainDelay * 1_000 < silenceMs);
  t.true(lockRenewTime + silenceMs < lockDuration);
  t.true(lockDuration + 2 * stalledInterval <= 15_000);
  t.true(3 * unchallengedMs <= lockDuration);
});
