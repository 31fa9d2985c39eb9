import { setTimeout as sleep } from 'node:timers/promises';
import { createListWorkers, type ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import type { IngressConfig } from '../../shared/process/config.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { createQueueBounds, type Depths, type QueueBounds } from './queue-bounds.ts';
import { createShownQueues, type QueueDashboard } from './queue-dashboard.ts';
import { createQueueDepths, type QueueDepths } from './queue-depths.ts';
import { createQueueTurns, createRequestQueues, type QueueTurns, type RequestQueues } from './queue-turns.ts';

type Queues = AsyncDisposable & {
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

/**
 * Reports to the bounds how many jobs wait, four times a second while they need it, until disposed
 * (decisions.md#depth-counted-when-useful). After a failure the count is unknown.
 */
export function countJobs({
  depths,
  bounds,
  everyMs = 250,
}: {
  depths: Pick<QueueDepths, 'read'>;
  bounds: Pick<QueueBounds, 'counted' | 'whenUseful'>;
  everyMs?: number;
}): Disposable {
  const stop = new AbortController();

  async function keepCounting(): Promise<void> {
    while (!stop.signal.aborted) {
      bounds.counted(await depths.read(everyMs).catch(() => undefined));
      await sleep(everyMs, undefined, { signal: stop.signal }).catch(() => {});
      await bounds.whenUseful();
    }
  }

  void keepCounting();
  return { [Symbol.dispose]: () => stop.abort() };
}
