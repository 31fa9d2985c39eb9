import test from 'ava';
import { createQueueChoice } from '../../../shared/jobs/queue-choice.ts';
import { modelQueue, poolQueue } from '../../../shared/jobs/queues.ts';
import { queuePrefix, sharesKey } from '../../../shared/redis/keys.ts';
import { createRenewShares } from '../../../workers/shares/renew-shares.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const models = { 'small-chat': { pool: 'default' }, 'large-chat': { pool: 'large' } };
const oldQueue = `${queuePrefix('default-interactive')}:default-interactive:stalled-check`;

test('a job goes to its model’s queue unless only workers of the previous release serve its pool', async (t) => {
  await using given = await openRedisDatabase();
  const { redis } = given;
  using choice = createQueueChoice({ redis, models, log: recordedLog().log });
  const chosen = async () => {
    await choice.look();
    return [choice.queueFor('small-chat', 'interactive'), choice.queueFor('large-chat', 'batch')];
  };
  const own = [modelQueue('small-chat', 'interactive'), modelQueue('large-chat', 'batch')];
  const ofPool = poolQueue('default', 'interactive');
  t.deepEqual(await chosen(), own, 'there is no worker yet');

  await redis.set(oldQueue, '1');
  t.deepEqual(await chosen(), [ofPool, own[1]], 'each pool is decided on its own');

  const renewShares = createRenewShares(redis, { workerId: 'worker-1' });
  await renewShares('new', { pools: ['large'], uses: [] });
  t.deepEqual(await chosen(), [ofPool, own[1]]);
  await renewShares('known', { pools: ['large', 'default'], uses: [] });
  t.deepEqual(await chosen(), own, 'one worker that reads both is enough');

  await renewShares('known', { pools: ['large'], uses: [] });
  t.deepEqual(await chosen(), [ofPool, own[1]], 'rolled back');
  await redis.hset(sharesKey, 'pool default', '3 ', 'renewedAt', Date.now() - 60_000);
  t.deepEqual(await chosen(), [ofPool, own[1]], 'all of them have died');
  await redis.del(oldQueue);
  t.deepEqual(await chosen(), own);
});

test('a model that is not in the plan file gets a queue, and the choice stays the same while Redis is unavailable', async (t) => {
  await using given = await openRedisDatabase();
  const redis = given.connect();
  await redis.set(oldQueue, '1');
  using choice = createQueueChoice({ redis, models, log: recordedLog().log });
  await choice.look();
  redis.disconnect();
  await choice.look();
  t.deepEqual(choice.queueFor('small-chat', 'interactive'), poolQueue('default', 'interactive'));
  t.deepEqual(choice.queueFor('unknown', 'batch'), modelQueue('unknown', 'batch'));
});
