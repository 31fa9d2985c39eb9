import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import { callerOf } from '../../shared/caller.ts';
import { createListedFields } from '../../shared/chat-call/listed-fields.ts';
import { createListWorkers } from '../../shared/jobs/list-workers.ts';
import { createQueueChoice } from '../../shared/jobs/queue-choice.ts';
import { createAdmit } from '../../shared/limits/admit.ts';
import { createAskLimits } from '../../shared/limits/ask-limits.ts';
import { createRelease } from '../../shared/limits/release.ts';
import { createSeed } from '../../shared/limits/seed.ts';
import type { Settle } from '../../shared/limits/settle.ts';
import { watchSuspensions } from '../../shared/limits/watch-suspensions.ts';
import type { WorkerConfig } from '../../shared/process/config.ts';
import type { Log } from '../../shared/process/log.ts';
import type { LimitMetrics } from '../../shared/process/metrics.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/store.ts';
import type { FindAnswer } from '../answers/find-answer.ts';
import type { StartRun } from '../leases/start-run.ts';
import { createAcquireLock } from '../locks/acquire.ts';
import { createReleaseLock } from '../locks/release.ts';
import type { LaneWork } from '../queue/lane-worker.ts';
import { redisNow } from '../redis-now.ts';
import type { BatchMetrics } from './batch-metrics.ts';
import { createClearBatch } from './files/clear-batch.ts';
import { createCloseBatch } from './files/close-batch.ts';
import { keepRemovingFiles } from './files/remove-files.ts';
import { createValidateBatch } from './files/validate-batch.ts';
import { createWriteBatchFiles } from './files/write-batch-files.ts';
import { createAdmitLine } from './lines/admit-line.ts';
import { createEndLine } from './lines/end-line.ts';
import { createFailLostLine } from './lines/fail-lost-line.ts';
import { createFinishLineAttempt } from './lines/finish-line-attempt.ts';
import { createKnownCallers } from './lines/known-callers.ts';
import { createSendLineEvent } from './lines/line-events.ts';
import { createLineQueue } from './lines/line-queue.ts';
import { createProcessLine } from './lines/process-line.ts';
import { watchBatches } from './lines/watch-batches.ts';
import { createWriteResults } from './lines/write-results.ts';
import { createAccountScheduler } from './scheduler/account-scheduler.ts';
import { createAssignAccounts } from './scheduler/assign-accounts.ts';
import { type BatchSupervisor, superviseBatches } from './scheduler/batch-supervisor.ts';
import { createCountBatch } from './scheduler/count-batch.ts';
import { createRecoverLostLines } from './scheduler/recover-lost-lines.ts';
import { scheduleAccounts, schedulerHoldMs } from './scheduler/schedule-accounts.ts';

/** The work of the batch lane, and of keeping batches going, which goes on until it is stopped. */
type Batches = AsyncDisposable & { work: LaneWork; keep(): BatchSupervisor };

const accountHoldMs = 6_000;
const filesHoldMs = 180_000;

/** All that a worker has for batches, put together. */
export function openBatches(deps: {
  config: WorkerConfig;
  outboxLengthMax: number;
  redis: Redis;
  /** Where control streams are. */
  replyRedis: Redis;
  store: Store;
  /** Unlike that of any other worker, also of one that was here before. */
  workerId: string;
  startRun: StartRun;
  settle: Settle;
  findAnswer: FindAnswer;
  /** This worker's control stream. */
  control: () => string | undefined;
  shutdown: AbortSignal;
  metrics: LimitMetrics & BatchMetrics;
  log: Log;
}): Batches {
  const { config, outboxLengthMax, redis, replyRedis, store, workerId, startRun, settle, shutdown, metrics, log } =
    deps;
  const { planFile } = config;
  const owned = new AsyncDisposableStack();

  const release = createRelease(redis);
  const sendLineEvent = createSendLineEvent(redis, log);
  const writeResult = createWriteResults({ store: store.batches, metrics, log });
  const watch = owned.use(watchBatches({ store: store.batches, log }));
  const admit = createAdmit(redis, { timeouts: planFile.timeouts, outboxLengthMax });
  const askLimits = createAskLimits({
    seed: createSeed({ redis, store }),
    reread: async (account: string) => callerOf(account, await store.findAccount(account), planFile.defaultPlan),
  });
  const lookAtAccount = async (account: string) => {
    const request = { account, subject: account, requestId: ulid(), caller: undefined };
    return (await askLimits(request, admit.look)).caller;
  };
  const suspensions = owned.use(watchSuspensions({ redis, look: lookAtAccount, log }));
  const admitLine = createAdmitLine({
    ...{ admit, askLimits },
    callers: createKnownCallers(),
    planFile,
  });
  const endLine = createEndLine({ settle, sendLineEvent, metrics, log });
  const finishAttempt = createFinishLineAttempt({
    store: store.batches,
    findUsageRecord: (requestId) => store.findUsageRecord(requestId),
    ...{ startRun, release, writeResult, endLine, sendLineEvent, metrics, log },
  });
  const processLine = createProcessLine({
    store: store.batches,
    admitLine,
    startRun,
    finishAttempt,
    requestMs: planFile.timeouts.requestMs,
    findAnswer: deps.findAnswer,
    writeResult,
    endLine,
    followBatch: watch.follow,
    followAccount: suspensions.follow,
    sendLineEvent,
    metrics,
    log,
  });

  function keep(): BatchSupervisor {
    const choice = owned.use(createQueueChoice({ redis, models: planFile.models, log }));
    void choice.look();
    const queue = owned.use(createLineQueue({ redis, models: planFile.models, choice, log }));
    const now = () => redisNow(redis);
    const recoverLostLines = createRecoverLostLines({ store: store.batches, queue, finishAttempt, planFile });
    const countBatch = createCountBatch({ store: store.batches });
    const heldBy = async (account: string) => new Set(await redis.hkeys(leasesKey(account, 'batch')));
    const rules = { models: planFile.models, listedFields: createListedFields(planFile) };
    const common = { store, queue, release, heldBy, writeResult, planFile, rules, metrics, log };
    owned.use(
      keepRemovingFiles({ store, acquireLock: createAcquireLock(redis, { workerId, holdMs: filesHoldMs }), now, log }),
    );
    const keeper = superviseBatches({
      store: store.batches,
      acquireLock: createAcquireLock(redis, { workerId, holdMs: accountHoldMs }),
      releaseLock: createReleaseLock(redis, { workerId }),
      createAccountRun: (account, lookSoon) =>
        createAccountScheduler({ ...common, account, recoverLostLines, countBatch, control: deps.control, lookSoon }),
      validateBatch: createValidateBatch({ store, planFile, rules, metrics }),
      closeBatch: createCloseBatch(common),
      writeBatchFiles: createWriteBatchFiles({ store, filesKeptDays: planFile.batch.filesKeptDays }),
      clearBatch: createClearBatch(common),
      now,
      log,
    });
    const scheduling = scheduleAccounts({
      ...{ workerId, redis, log, store: store.batches, take: keeper.take },
      acquireLock: createAcquireLock(redis, { workerId, holdMs: schedulerHoldMs }),
      releaseLock: createReleaseLock(redis, { workerId }),
      listWorkers: createListWorkers(redis),
      assign: createAssignAccounts(replyRedis),
      canAssign: () => replyRedis.status === 'ready',
    });
    return owned.use({
      ...keeper,
      async [Symbol.asyncDispose]() {
        await Promise.all([scheduling[Symbol.asyncDispose](), keeper[Symbol.asyncDispose]()]);
      },
    });
  }

  return {
    work: {
      processJob: processLine,
      endLost: createFailLostLine({ writeResult, processLine, finishAttempt, shutdown }),
    },
    keep,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
