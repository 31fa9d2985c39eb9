import type { AffinityKeys } from '../../shared/endpoints/affinity-keys.ts';
import { createListWorkers } from '../../shared/fleet/follow-fleet.ts';
import { createRelease } from '../../shared/limits/release.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { LimitMetrics } from '../../shared/process/metrics.ts';
import { type Redis, redisNow } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { LaneWork } from '../queue/lane-worker.ts';
import { createAcquireLock, createReleaseLock } from '../upkeep/locks.ts';
import { createAccountScheduler } from './account-scheduler.ts';
import type { BatchMetrics } from './batch-metrics.ts';
import { type BatchSupervisor, superviseBatches } from './batch-supervisor.ts';
import { createClearBatch, createCloseBatch } from './files/close-batch.ts';
import { createReadAhead } from './files/ordered-lines.ts';
import { type LineRules, lineRulesOf } from './files/parse-line.ts';
import { startFileRemoval } from './files/start-file-removal.ts';
import { createValidateBatch } from './files/validate-batch.ts';
import { createWriteBatchFiles } from './files/write-batch-files.ts';
import type { FinishLineAttempt } from './lines/finish-line-attempt.ts';
import { createLineQueue } from './lines/line-queue.ts';
import type { WriteResult } from './lines/write-results.ts';
import { type LineWorkDeps, openLineWork } from './open-line-work.ts';
import { createRecoverLostLines } from './recover-lost-lines.ts';
import { assignAccounts, scheduleAccounts, schedulerHoldMs } from './schedule-accounts.ts';

/** The work of the batch lane, and the supervision of batches, which starts when `supervise` is called. */
type Batches = AsyncDisposable & { work: LaneWork; supervise(): BatchSupervisor };

/** Opens all that a worker needs for batches. */
export function openBatches(deps: LineWorkDeps & SupervisionDeps): Batches {
  const owned = new AsyncDisposableStack();
  const { work, finishAttempt, writeResult } = owned.use(openLineWork(deps));
  return {
    work,
    supervise: () => openSupervision({ ...deps, finishAttempt, writeResult }, owned),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const accountHoldMs = 6_000;
const filesHoldMs = 180_000;

type SupervisionDeps = {
  affinityKeys: AffinityKeys;
  currentPlanFile: () => PlanFile;
  /** For regular work; see `Connections`. */
  upkeepRedis: Redis;
  /** The same for the Redis with the control streams. */
  replyUpkeepRedis: Redis;
  store: Store;
  /** Differs from the id of every other worker, also of earlier ones on this host. */
  workerId: string;
  /** This worker's control stream. */
  control: string;
  metrics: Pick<LimitMetrics, 'refusedFields'> & Pick<BatchMetrics, 'batchDuration'>;
  log: Log;
};

type Deps = SupervisionDeps & { finishAttempt: FinishLineAttempt; writeResult: WriteResult };

/** Starts the supervision of batches, the election of the worker that assigns accounts, and the removal of files. */
function openSupervision(deps: Deps, owned: AsyncDisposableStack): BatchSupervisor {
  const { upkeepRedis, store, workerId, log } = deps;
  const now = () => redisNow(upkeepRedis);
  const supervisor = openSupervisor(deps, owned, now);
  owned.use(
    startFileRemoval({
      store,
      acquireLock: createAcquireLock(upkeepRedis, { workerId, holdMs: filesHoldMs }),
      now,
      log,
    }),
  );
  const scheduling = openScheduling(deps, supervisor);
  return owned.use({
    ...supervisor,
    async [Symbol.asyncDispose]() {
      await Promise.all([scheduling[Symbol.asyncDispose](), supervisor[Symbol.asyncDispose]()]);
    },
  });
}

function openSupervisor(deps: Deps, owned: AsyncDisposableStack, now: () => Promise<number>): BatchSupervisor {
  const { upkeepRedis, store, workerId, control, finishAttempt, writeResult, metrics, log } = deps;
  const { currentPlanFile, affinityKeys } = deps;
  const queue = owned.use(createLineQueue({ redis: upkeepRedis, models: () => currentPlanFile().models, log }));
  const recoverLostLines = createRecoverLostLines({ store: store.batches, queue, finishAttempt, currentPlanFile });
  const heldBy = async (account: string) => new Set(await upkeepRedis.hkeys(leasesKey(account, 'batch')));
  const rules = () => lineRulesOf(currentPlanFile());
  const rulesOf = (account: string) => (): LineRules => ({
    ...rules(),
    affinityOf: (endpoint, request, model) =>
      affinityKeys(endpoint, request, { planFile: currentPlanFile(), model, account }),
  });
  const readAhead = createReadAhead();
  const line = { store, queue, readAhead, release: createRelease(upkeepRedis), writeResult, currentPlanFile };
  return superviseBatches({
    store: store.batches,
    acquireLock: createAcquireLock(upkeepRedis, { workerId, holdMs: accountHoldMs }),
    releaseLock: createReleaseLock(upkeepRedis, { workerId }),
    createAccountScheduler: (account, refreshSoon) =>
      createAccountScheduler({
        ...line,
        account,
        rules: rulesOf(account),
        recoverLostLines,
        control,
        refreshSoon,
        log,
      }),
    validateBatch: createValidateBatch({ store, currentPlanFile, rules, metrics }),
    closeBatch: createCloseBatch({ ...line, heldBy }),
    writeBatchFiles: createWriteBatchFiles({ store, filesKeptDays: () => currentPlanFile().batch.filesKeptDays }),
    clearBatch: createClearBatch({ store, queue }),
    metrics,
    now,
    log,
  });
}

function openScheduling(deps: SupervisionDeps, { take }: BatchSupervisor): AsyncDisposable {
  const { upkeepRedis, replyUpkeepRedis, store, workerId, log } = deps;
  return scheduleAccounts({
    workerId,
    redis: upkeepRedis,
    log,
    store: store.batches,
    take,
    acquireLock: createAcquireLock(upkeepRedis, { workerId, holdMs: schedulerHoldMs }),
    releaseLock: createReleaseLock(upkeepRedis, { workerId }),
    listWorkers: createListWorkers(upkeepRedis),
    assign: (worker, accounts) => assignAccounts(replyUpkeepRedis, worker, accounts),
    canAssign: () => replyUpkeepRedis.status === 'ready',
  });
}
