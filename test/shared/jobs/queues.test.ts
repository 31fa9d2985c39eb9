import test from 'ava';
import {
  allQueues,
  lockMs,
  lookForStalledEveryMs,
  modelQueue,
  renewLocksEveryMs,
  unchallengedMs,
  workerOptions,
} from '../../../shared/jobs/queues.ts';
import { connectForWork } from '../../../shared/redis/connections.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('a silent network is detected before a lock expires, and a dead worker within 15 s', async (t) => {
  await using own = await openRedisDatabase();
  const connection = connectForWork(own.url, recordedLog().log);
  t.teardown(() => connection.disconnect());
  const { socketTimeout: silenceMs = Number.NaN } = connection.options as { socketTimeout?: number }; // of one server
  const { stalledInterval = Number.NaN } = workerOptions(modelQueue('m', 'interactive'), connection);
  t.true(renewLocksEveryMs + silenceMs < lockMs);
  t.true(lockMs + lookForStalledEveryMs <= 15_000);
  t.true(stalledInterval < lookForStalledEveryMs, 'no check is skipped');
  t.true(3 * unchallengedMs <= lockMs);
});

test('no two queues have the same name, for any names of models', (t) => {
  const names = ['a', 'a.batch', 'a-batch', 'org/a', 'org%2Fa', 'a:b', 'batch', 'größe', 'a b'];
  const models = Object.fromEntries(names.map((name) => [name, { pool: name }]));
  const queues = allQueues(models);
  t.is(new Set(queues.map(({ name }) => name)).size, 2 * names.length);
  for (const name of names) t.regex(modelQueue(name, 'batch').name, /^[^/:]+$/);
});

test('a queue has the hash tag of its model', (t) => {
  t.is(modelQueue('org/a', 'batch').prefix, modelQueue('org/a', 'interactive').prefix);
  t.is(modelQueue('org/a', 'batch').prefix, 'svc:{org/a}');
});
