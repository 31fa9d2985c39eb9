import { ulid } from 'ulid';
import { createAdmit } from '../../shared/limits/admit.ts';
import { createAskLimits } from '../../shared/limits/ask-limits.ts';
import { createRelease, type Release } from '../../shared/limits/release.ts';
import { createSeed } from '../../shared/limits/seed.ts';
import type { Settle } from '../../shared/limits/settle.ts';
import { watchSuspensions } from '../../shared/limits/watch-suspensions.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { AnswerBudget } from '../../shared/process/answer-budget.ts';
import type { Log } from '../../shared/process/log.ts';
import type { LimitMetrics } from '../../shared/process/metrics.ts';
import { type Redis, redisNow, redisUnavailable } from '../../shared/redis/connections.ts';
import { callerOf } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import type { FindAnswer } from '../failover/find-answer.ts';
import type { LaneWork } from '../queue/lane-worker.ts';
import type { LinePace } from '../queue/line-pace.ts';
import { createStartRun, type StartRun } from '../requests/start-run.ts';
import type { BatchMetrics } from './batch-metrics.ts';
import { type AdmitLine, createAdmitLine, createKnownCallers, createPartitionBreaker } from './lines/admit-line.ts';
import { createEndLine } from './lines/end-line.ts';
import { createFinishLineAttempt, type FinishLineAttempt } from './lines/finish-line-attempt.ts';
import { createSendLineEvent } from './lines/line-events.ts';
import { createFailLostLine, createProcessLine } from './lines/process-line.ts';
import { createKnownBytes, createResultRoom } from './lines/result-room.ts';
import { watchBatches } from './lines/watch-batches.ts';
import { createWriteResults, type WriteResult } from './lines/write-results.ts';

/** The work of the batch lane, and the functions by which a line ends. */
type LineWork = AsyncDisposable & { work: LaneWork; finishAttempt: FinishLineAttempt; writeResult: WriteResult };

export type LineWorkDeps = {
  currentPlanFile: () => PlanFile;
  outboxLengthMax: number;
  /**
   * See `Connections`. Lines of all accounts share the lane, so the calls for a line fail if the node of its account is unavailable. Then
   * it is postponed, and the lines of other accounts run.
   */
  upkeepRedis: Redis;
  /** The same for the Redis with the control streams. */
  replyUpkeepRedis: Redis;
  store: Store;
  /** By `upkeepRedis`, and in a cluster with one attempt: the next attempt at the line settles it. */
  settle: Settle;
  findAnswer: FindAnswer;
  answers: AnswerBudget;
  linePace: Pick<LinePace, 'begin'>;
  shutdown: AbortSignal;
  metrics: LimitMetrics & BatchMetrics;
  tracing: Tracing | undefined;
  log: Log;
};

export function openLineWork(deps: LineWorkDeps): LineWork {
  const { upkeepRedis, store, findAnswer, shutdown, metrics, log } = deps;
  const owned = new AsyncDisposableStack();
  const sendLineEvent = createSendLineEvent(deps.replyUpkeepRedis, log);
  const room = createResultRoom({
    store: store.batches,
    known: createKnownBytes({ store: store.batches, now: () => redisUnavailable(redisNow(upkeepRedis)) }),
    bytesMax: () => deps.currentPlanFile().batch.accountBytesMax,
  });
  const writeResult = createWriteResults({ store: store.batches, room, metrics, log });
  const watch = owned.use(watchBatches({ store: store.batches, log }));
  const admission = openAdmission(deps);
  const { admitLine, startRun, release, settle } = openCalls(deps, admission.admitLine);
  const suspensions = owned.use(watchSuspensions({ redis: upkeepRedis, look: admission.readCaller, log }));
  const endLine = createEndLine({ settle, sendLineEvent, metrics, log });
  const finishAttempt = createFinishLineAttempt({
    store: store.batches,
    findUsageRecord: (requestId) => store.usage.findUsageRecord(requestId),
    startRun,
    release,
    writeResult,
    endLine,
    sendLineEvent,
    metrics,
    log,
  });
  const processLine = createProcessLine({
    store: store.batches,
    requestMs: () => deps.currentPlanFile().timeouts.requestMs,
    followBatch: watch.follow,
    followAccount: suspensions.follow,
    tracing: deps.tracing,
    answers: deps.answers,
    linePace: deps.linePace,
    room,
    admitLine,
    startRun,
    finishAttempt,
    findAnswer,
    writeResult,
    endLine,
    sendLineEvent,
    metrics,
    log,
  });
  return {
    work: {
      processJob: processLine,
      failLost: createFailLostLine({ writeResult, processLine, finishAttempt, shutdown }),
    },
    finishAttempt,
    writeResult,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Calls = { admitLine: AdmitLine; startRun: StartRun; release: Release; settle: Settle };

/**
 * The calls to Redis for a line. In a cluster they fail with `SERVICE_UNAVAILABLE` if a node is away, and it is unknown then whether they
 * were executed: all of them are idempotent, and the next attempt at the line repeats them.
 */
function openCalls({ upkeepRedis, settle }: LineWorkDeps, admitLine: AdmitLine): Calls {
  const [startRun, release] = [createStartRun(upkeepRedis), createRelease(upkeepRedis)];
  if (!upkeepRedis.isCluster) return { admitLine, startRun, release, settle };
  const callPartition = createPartitionBreaker();
  return {
    admitLine: (job) => callPartition(job.account, () => admitLine(job)),
    startRun: (job) => callPartition(job.account, () => redisUnavailable(startRun(job))),
    release: (request) => callPartition(request.account, () => redisUnavailable(release(request))),
    settle: (settlement) => callPartition(settlement.account, () => redisUnavailable(settle(settlement))),
  };
}

function openAdmission({ upkeepRedis: redis, store, currentPlanFile, outboxLengthMax }: LineWorkDeps) {
  const admit = createAdmit(redis, { timeouts: () => currentPlanFile().timeouts, outboxLengthMax });
  const callers = createKnownCallers();
  const askLimits = createAskLimits({
    seed: createSeed({ redis, store: store.usage }),
    async reread(account: string) {
      const found = await store.accounts.findAccount(account);
      const caller = callerOf(account, found, currentPlanFile().defaultPlan);
      callers.keep(caller, found);
      return caller;
    },
  });
  return {
    admitLine: createAdmitLine({ admit, askLimits, callers, currentPlanFile }),
    async readCaller(account: string) {
      const request = { account, subject: account, requestId: ulid(), caller: undefined };
      return (await askLimits(request, admit.look)).caller;
    },
  };
}
