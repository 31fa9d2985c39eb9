import { createListWorkers, type ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import type { IngressConfig } from '../../shared/process/config.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { countJobs } from './count-jobs.ts';
import type { QueueDashboard } from './dashboard/queue-dashboard.ts';
import { createShownQueues } from './dashboard/shown-queues.ts';
import { createQueueBounds, type QueueBounds } from './queue-bounds.ts';
import { createQueueDepths, type Depths, type QueueDepths } from './queue-depths.ts';
import { createQueueTurns, type QueueTurns } from './queue-turns.ts';
import { createRequestQueues, type RequestQueues } from './request-queues.ts';

export type Queues = AsyncDisposable & {
  queues: RequestQueues;
  queueDepths: QueueDepths;
  queueBounds: QueueBounds;
  queueTurns: QueueTurns;
  listWorkers: ListWorkers;
};

/** Opens the queues of an ingress, with their bounds, counts and dashboard. Redis must be available. */
export async function openQueues({
  planFile,
  bounds,
  redis,
  dashboardRedis,
  dashboard,
  log,
}: {
  planFile: Pick<PlanFileInForce, 'current' | 'onReplaced'>;
  bounds: Pick<IngressConfig['queue'], 'depthMax' | 'bytesMax'>;
  redis: Redis;
  /** A separate connection, because pages of large jobs must not delay requests. */
  dashboardRedis: Redis;
  dashboard: Pick<QueueDashboard, 'show'>;
  log: Log;
}): Promise<Queues> {
  await using parts = new AsyncDisposableStack();
  const queues = parts.use(createRequestQueues({ connection: redis, log }));
  const queueDepths = createQueueDepths({ redis, currentPlanFile: planFile.current });
  const queueBounds = createQueueBounds({ ...bounds, models: () => Object.keys(planFile.current().models) });
  const queueTurns = createQueueTurns();
  const counted = (depths: Depths | undefined) => {
    queueBounds.counted(depths);
    queueTurns.counted(depths);
  };
  const read = (ageMsMax: number) => queueDepths.read(ageMsMax, queueTurns.latest());
  parts.use(countJobs({ depths: { read }, bounds: { ...queueBounds, counted } }));
  const listWorkers = createListWorkers(redis);
  const shown = parts.use(createShownQueues({ connection: dashboardRedis, log }));
  const show = () => dashboard.show(shown.ofModels(planFile.current().models), listWorkers);
  planFile.onReplaced(show);
  show();
  const owned = parts.move();
  const opened = { queues, queueDepths, queueBounds, queueTurns, listWorkers };
  return { ...opened, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
