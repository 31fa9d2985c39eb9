import test from 'ava';
import { Queue } from 'bullmq';
import { createQueueDepths } from '../../../ingress/queue/queue-depths.ts';
import { jobName, modelQueue, type QueueId, queueOptions } from '../../../shared/jobs/queues.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { queueDepthsKey } from '../../../shared/redis/keys.ts';
import { countCommands } from '../../support/count-commands.ts';
import { openRedisDatabase, startPrivateRedis } from '../../support/private-redis.ts';

const models = Object.fromEntries(
  ['small-chat', 'org/large:chat'].map((name) => [
    name,
    { tier: 'guest', pool: 'default', backends: ['a'], outputTokensMax: 1 },
  ]),
);
const planFile = { models, plans: { free: { priority: 10 }, pro: { priority: 5 } } } as unknown as PlanFile; // nothing else is read

async function add({ redis, id }: { redis: Awaited<ReturnType<typeof openRedisDatabase>>['redis']; id: QueueId }) {
  const queue = new Queue(id.name, queueOptions(id, redis));
  await queue.add(jobName, {}, { priority: 3 });
  await queue.add(jobName, {});
  await queue.close();
}

test('counts waiting jobs in each lane of each model, with and without a priority', async (t) => {
  await using given = await openRedisDatabase();
  const { redis } = given;
  await add({ redis, id: modelQueue('small-chat', 'batch') });
  await add({ redis, id: modelQueue('org/large:chat', 'interactive') });
  const { of } = await createQueueDepths({ redis, currentPlanFile: () => planFile }).read(250);
  t.is(of('small-chat', 'interactive'), 0);
  t.is(of('small-chat', 'batch'), 2);
  t.is(of('org/large:chat', 'interactive'), 2);
  t.is(of('unknown', 'interactive'), 0);
});

test('one ingress counts, and the others read its result until it is too old', async (t) => {
  await using given = await startPrivateRedis();
  const { redis } = given;
  const open = () => createQueueDepths({ redis, currentPlanFile: () => planFile });
  const counting = async (work: () => Promise<unknown>) => (await countCommands(redis, work)).get('zcard') ?? 0;
  t.is(await counting(() => open().read(60_000)), 4);
  t.is(await counting(() => Promise.all(Array.from({ length: 20 }, () => open().read(60_000)))), 0);
  await redis.hset(queueDepthsKey, 'begunAt', 1);
  t.is(await counting(() => open().read(60_000)), 0, 'now another one counts');
  await redis.del('svc:queue-depths-counting');
  t.is(await counting(() => Promise.all(Array.from({ length: 20 }, () => open().read(60_000)))), 4);
});

test('reports a start of the count that is never too late', async (t) => {
  await using given = await openRedisDatabase();
  const { redis } = given;
  const open = () => createQueueDepths({ redis, currentPlanFile: () => planFile });
  const before = performance.now();
  const first = await open().read(60_000);
  const after = performance.now();
  t.true(first.begunAt <= after);
  t.true(first.begunAt > before - 5, `${before - first.begunAt}`);
  const second = await open().read(60_000);
  t.true(second.begunAt <= after);
});
