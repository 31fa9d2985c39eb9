import { randomUUID } from 'node:crypto';
import { Worker } from 'bullmq';
import { Registry } from 'prom-client';
import type { Batch } from '../../shared/batches/batch.ts';
import { modelQueue, workerOptions } from '../../shared/jobs/queues.ts';
import { createAdmit } from '../../shared/limits/admit.ts';
import { createRelease } from '../../shared/limits/release.ts';
import { createSettle } from '../../shared/limits/settle.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import { type BatchJob, batchJobSchema, requestIdOf } from '../../workers/batches/lines/batch-job.ts';
import { createEndLine } from '../../workers/batches/lines/end-line.ts';
import { createFinishLineAttempt } from '../../workers/batches/lines/finish-line-attempt.ts';
import { createLineQueue } from '../../workers/batches/lines/line-queue.ts';
import { createWriteResults } from '../../workers/batches/lines/write-results.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { createStartRun } from '../../workers/requests/start-run.ts';
import { batchOf, fileOf } from '../shared/store/batch-records.ts';
import { createSqliteHome } from '../shared/store/sqlite-home.ts';
import { lineOf } from './batch-client.ts';
import { batchPlan, lineRules } from './batch-plan.ts';
import { lostReport, openLimits } from './limits-side.ts';
import { recordedLog } from './recorded-log.ts';
import { openResultRoom } from './result-room.ts';

/** The parts that run a batch, with a real store, a real queue and a file of `lines` lines. */
export async function openBatchSide(
  redis: Redis,
  { lines = 5, model = 'small-chat', method = 'POST', ...change }: Given = {},
) {
  await using parts = new AsyncDisposableStack();
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const { log, lines: logged } = recordedLog();
  const planFile = batchPlan();
  const queue = parts.use(createLineQueue({ redis, models: () => planFile.models, log }));
  const account = `user:${randomUUID()}`;
  const batch = batchOf({
    ...{ account, counts: { total: lines, completed: 0, failed: 0 }, inProgressAt: new Date() },
    ...change,
  });
  const text = Array.from(
    { length: lines },
    (_, index) => `${lineOf(`line ${index + 1}`, { model }).replace('POST', method)}\n`,
  ).join('');
  await store.batches.insertFile(fileOf({ id: batch.inputFile, account, lines }));
  await store.files.write(batch.inputFile, bytesOf(text));
  await store.batches.insertBatch(batch);

  const metrics = createWorkerMetrics(new Registry());
  const release = createRelease(redis);
  const room = openResultRoom(store, () => planFile.batch.accountBytesMax);
  const writeResult = createWriteResults({ store: store.batches, room, metrics, log, pauseMs: 1 });
  const heldBy = async (owner: string) => new Set(await redis.hkeys(leasesKey(owner, 'batch')));
  const limits = openLimits(redis, { account });
  await limits.prepare(new Date().toISOString().slice(0, 7));
  const admit = createAdmit(redis, { timeouts: () => planFile.timeouts, outboxLengthMax: 1_000 });
  const startRun = createStartRun(redis);
  const sendLineEvent = () => {};
  const finishAttempt = createFinishLineAttempt({
    ...{ startRun, release, writeResult, sendLineEvent, metrics, log, store: store.batches },
    findUsageRecord: (requestId) => store.usage.findUsageRecord(requestId),
    endLine: createEndLine({ settle: createSettle(redis), sendLineEvent, metrics, log }),
  });

  function jobOf(line: number, number = 1): BatchJob {
    return batchJobSchema.parse({
      ...{ requestId: requestIdOf(batch.id, line, number), account, keyId: '', model, tier: 'guest', plan: 'free' },
      ...{
        endpoint: '/v1/chat/completions',
        errorFormat: 'flat',
        stream: false,
        includeUsage: false,
        assembled: true,
        choices: 1,
        promptEstimate: 0,
        payload: '{}',
      },
      ...{
        outputTokensMax: 1,
        limitFields: [],
        earlierRuns: [],
        batch: batch.id,
        line,
        number,
        customId: `line ${line}`,
      },
      ...{ failures: 0, losses: 0, reservedTokens: 10, tellTo: '' },
    });
  }

  const owned = parts.move();

  return {
    ...{ store, queue, planFile, account, batch, metrics, release, writeResult, log, logged, jobOf, redis },
    ...{ heldBy, finishAttempt, rules: () => lineRules(planFile), currentPlanFile: () => planFile },
    requestOf: (line: number, number = 1) => requestIdOf(batch.id, line, number),
    add: (line: number, number = 1) => queue.add(jobOf(line, number)),
    /** Takes the next job as a worker. Resolves with a function that completes it. */
    async take(): Promise<() => Promise<void>> {
      const id = modelQueue(model, 'batch');
      const worker = owned.adopt(new Worker(id.name, null, workerOptions(id, redis)), (opened) => opened.close());
      const job = await worker.getNextJob(id.name, { block: false });
      if (job === undefined) throw new Error('there is no job');
      return async () => void (await job.moveToCompleted(undefined, id.name, false));
    },
    /** Gives a line's request the lease of a started run. */
    async lease(line: number, number = 1): Promise<void> {
      const request = { account, requestId: requestIdOf(batch.id, line, number), lane: 'batch' as const };
      const charge = { allowance: { overageEnabled: false }, reservedTokens: 10, report: lostReport };
      const admitted = await admit.admit({ ...request, version: 1 }, charge);
      if (admitted.outcome !== 'admitted') throw new Error(admitted.outcome);
      await startRun({ ...request, taken: 1 });
    },
    leases: () => redis.hlen(leasesKey(account, 'batch')),
    counters: () => limits.counters(),
    async moveBatch(moved: Partial<Batch>): Promise<Batch> {
      return store.batches.changeBatch(batch.id, (found) => {
        const next = { ...(found ?? batch), ...moved };
        return { result: next, next };
      });
    },
    find: async () => (await store.batches.findBatch(batch.id)) ?? batch,
    results: () => store.batches.listResults(batch.id, { after: 0, limit: 1_000 }),
    async read(file: string | undefined): Promise<string> {
      const bytes = file === undefined ? undefined : await store.files.read(file, 0, 100_000_000);
      return Buffer.from(bytes ?? []).toString();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** `method`: of all lines. */
type Given = Partial<Batch> & { lines?: number; method?: string };

export type BatchSide = Awaited<ReturnType<typeof openBatchSide>>;

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
