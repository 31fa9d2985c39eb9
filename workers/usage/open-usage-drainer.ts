import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/store.ts';
import { createEndLeases } from '../requests/end-leases.ts';
import { countLeases, createExpireLeases, type LeaseMetrics } from '../requests/expire-leases.ts';
import { createShareKeptRoom, type KeptMetrics } from '../upkeep/share-kept-room.ts';
import type { OnStored } from './drain-partition.ts';
import { createObserveOutboxes } from './observe-outboxes.ts';
import { createUsageDrainer, type UsageDrainer } from './usage-drainer.ts';
import type { UsageMetrics } from './usage-metrics.ts';

/** Starts draining usage and expiring leases, and registers their gauges. */
export function openUsageDrainer(deps: {
  redis: Redis;
  store: Store;
  workerId: string;
  currentPlanFile: () => Pick<PlanFile, 'timeouts' | 'usageMonthsKept'>;
  onStored: OnStored;
  metrics: UsageMetrics & LeaseMetrics & KeptMetrics;
  log: Log;
}): UsageDrainer {
  const { redis, store, workerId, currentPlanFile, onStored, metrics, log } = deps;
  const requestMs = () => currentPlanFile().timeouts.requestMs;
  const monthsKept = () => currentPlanFile().usageMonthsKept;
  const endLeases = createEndLeases(redis, { requestMs });
  const expireLeases = createExpireLeases({ redis, endLeases, requestMs, metrics });
  const shareKeptRoom = createShareKeptRoom({ redis, report: metrics.reportKept });
  const drainer = createUsageDrainer({
    redis,
    store: store.usage,
    workerId,
    onStored,
    metrics,
    log,
    monthsKept,
    expireLeases,
    shareKeptRoom,
  });
  metrics.observeOutboxes(createObserveOutboxes(redis, drainer.held));
  metrics.observeLeases(() => countLeases(redis, drainer.held()));
  return drainer;
}
