import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { Registry } from 'prom-client';
import { createSeed } from '../../../../shared/limits/seed.ts';
import { createSettle } from '../../../../shared/limits/settle.ts';
import { createAnswerBudget } from '../../../../shared/process/answer-budget.ts';
import { leasesKey, queuePrefix } from '../../../../shared/redis/keys.ts';
import { type BatchJob, batchJobSchema, requestIdOf } from '../../../../workers/batches/lines/batch-job.ts';
import { createLineQueue } from '../../../../workers/batches/lines/line-queue.ts';
import { openLineWork } from '../../../../workers/batches/open-line-work.ts';
import type { AnswerOutcome } from '../../../../workers/failover/answer-outcome.ts';
import { createWorkerMetrics } from '../../../../workers/metrics.ts';
import { createLinePace } from '../../../../workers/queue/line-pace.ts';
import { batchOf } from '../../../shared/store/batch-records.ts';
import { createSqliteHome } from '../../../shared/store/sqlite-home.ts';
import type { ClusterNode } from '../../../stack/redis-cluster.ts';
import { batchPlan } from '../../../support/batch-plan.ts';
import { type ClusterSide, openClusterSide } from '../../../support/cluster-side.ts';
import { recordedLog } from '../../../support/recorded-log.ts';

let side: ClusterSide;

test.before(async () => {
  side = await openClusterSide();
});
test.after.always(() => side?.[Symbol.asyncDispose]());

const usage = { promptTokens: 3, completionTokens: 2, cachedTokens: 0, estimated: false };
const answered: AnswerOutcome = { outcome: 'answered', answer: { body: '{}', usage } };

/** A name whose key is on the node, or on another one. */
async function nameOn(node: ClusterNode, keyOf: (name: string) => string, isOn = true): Promise<string> {
  for (;;) {
    const name = randomUUID();
    if (((await side.cluster.holderOf(keyOf(name))) === node) === isOn) return name;
  }
}

const ofAccount = (name: string) => leasesKey(`user:${name}`, 'batch');

/** The work on lines, with a real store. `away` and `near` are accounts on the node and on another one. */
async function openWork(t: ExecutionContext, node: ClusterNode, findAnswer = async () => answered) {
  const redis = await side.connect(t);
  const home = await createSqliteHome();
  const store = await home.open();
  const { log } = recordedLog();
  const planFile = batchPlan();
  const lineWork = openLineWork({
    ...{ upkeepRedis: redis, replyUpkeepRedis: redis, store, findAnswer, log },
    answers: createAnswerBudget({ bytesMax: 100_663_296 }),
    linePace: createLinePace(),
    currentPlanFile: () => planFile,
    outboxLengthMax: 1_000,
    settle: createSettle(redis, { attemptsMax: 1 }),
    shutdown: new AbortController().signal,
    tracing: undefined,
    metrics: createWorkerMetrics(new Registry()),
  });
  t.teardown(async () => {
    await lineWork[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
  });
  const batches = new Map<string, string>();
  const accounts = {
    away: `user:${await nameOn(node, ofAccount)}`,
    near: `user:${await nameOn(node, ofAccount, false)}`,
  };
  for (const account of Object.values(accounts)) {
    const batch = batchOf({ account, counts: { total: 100, completed: 0, failed: 0 } });
    await store.batches.insertBatch(batch);
    batches.set(account, batch.id);
  }

  function jobOf(account: string, line: number): BatchJob {
    const batch = batches.get(account) ?? '';
    return batchJobSchema.parse({
      ...{ requestId: requestIdOf(batch, line, 1), account, keyId: '', model: 'small-chat', tier: 'guest' },
      ...{
        endpoint: '/v1/chat/completions',
        errorFormat: 'flat',
        stream: false,
        includeUsage: false,
        assembled: true,
        choices: 1,
        limitFields: [],
      },
      ...{
        outputTokensMax: 1,
        promptEstimate: 0,
        earlierRuns: [],
        batch,
        line,
        number: 1,
        customId: `line ${line}`,
        payload: '{}',
      },
      ...{ plan: 'free', failures: 0, losses: 0, reservedTokens: 10, tellTo: '' },
    });
  }

  const { signal } = new AbortController();
  return {
    accounts,
    run: async (account: string, line: number, taken = 1) =>
      (await lineWork.work.processJob({ data: jobOf(account, line), taken, signal })).outcome,
    /** The tokens of this month, and the leases that are left. */
    async charged(account: string) {
      const month = new Date().toISOString().slice(0, 7);
      const { after } = await createSeed({ redis, store: store.usage })({ account }, month, 'compare');
      return { ...after, leases: await redis.hlen(leasesKey(account, 'batch')) };
    },
  };
}

type Work = Awaited<ReturnType<typeof openWork>>;

const charge = (lines: number) => ({ chargedTokens: 5 * lines, reservedTokens: 0, overageTokens: 0, leases: 0 });

/** Runs a postponed line again, as its next takings, until it is done. */
async function finish({ run }: Work, account: string, line: number): Promise<void> {
  for (let taken = 2; (await run(account, line, taken)) !== 'done'; taken++) await sleep(200);
}

test.serial('lines of accounts on a node that is down are postponed, and the others run', async (t) => {
  t.timeout(60_000);
  const [node] = await side.cluster.masters();
  if (node === undefined) return t.fail();
  const work = await openWork(t, node);
  const { away, near } = work.accounts;
  t.is(await work.run(away, 1), 'done');
  await node.kill('SIGKILL');
  try {
    t.is(await work.run(away, 2), 'later');
    const others = await Promise.all([3, 4, 5, 6].map((line) => work.run(away, line)));
    t.deepEqual(others, ['later', 'later', 'later', 'later']);
    t.is(await work.run(near, 1), 'done');
  } finally {
    await node.restart();
    await side.cluster.untilWhole();
  }
  for (const line of [2, 3, 4, 5, 6]) await finish(work, away, line);
  t.deepEqual(await work.charged(near), charge(1));
  t.deepEqual(await work.charged(away), charge(6));
});

test.serial('calls for a line that timed out and are executed later charge it once', async (t) => {
  t.timeout(60_000);
  const [node] = await side.cluster.masters();
  if (node === undefined) return t.fail();
  let freezes = false;
  const work = await openWork(t, node, async () => {
    if (freezes) await node.kill('SIGSTOP');
    return answered;
  });
  const { away } = work.accounts;
  t.is(await work.run(away, 1), 'done');
  await node.kill('SIGSTOP');
  t.is(await work.run(away, 2), 'later', 'it was not admitted in time');
  await node.kill('SIGCONT');
  await side.cluster.untilWhole();
  await finish(work, away, 2);
  freezes = true;
  t.is(await work.run(away, 3), 'later', 'it was not settled in time');
  freezes = false;
  await node.kill('SIGCONT');
  await side.cluster.untilWhole();
  await finish(work, away, 3);
  t.deepEqual(await work.charged(away), charge(3));
});

test.serial(
  'while the node of a queue is down, lines of other models are queued, and none counts as lost',
  async (t) => {
    t.timeout(60_000);
    const [node] = await side.cluster.masters();
    if (node === undefined) return t.fail();
    const [away, near] = [await nameOn(node, queuePrefix), await nameOn(node, queuePrefix, false)];
    const { log } = recordedLog();
    type Models = ReturnType<Parameters<typeof createLineQueue>[0]['models']>;
    const models = { [away]: {}, [near]: {} } as unknown as Models; // only the names are read
    await using queue = createLineQueue({ redis: await side.connect(t), models: () => models, log });
    const add = (model: string, requestId: string) => queue.add({ model, requestId } as BatchJob); // the queue reads nothing else
    await add(away, 'one');
    await node.kill('SIGKILL');
    try {
      await t.throwsAsync(add(away, 'two'));
      await add(near, 'three');
      const lines = [
        { model: away, requestId: 'one' },
        { model: near, requestId: 'three' },
        { model: near, requestId: 'never queued' },
      ];
      t.deepEqual([...(await queue.remaining(lines))].toSorted(), ['one', 'three']);
      t.true((await queue.remaining([{ requestId: 'never queued' }])).has('never queued'), 'any queue could have it');
      await t.throwsAsync(queue.remove({ model: away, requestId: 'one' }));
      t.true(await queue.remove({ model: near, requestId: 'three' }));
    } finally {
      await node.restart();
      await side.cluster.untilWhole();
    }
  },
);
