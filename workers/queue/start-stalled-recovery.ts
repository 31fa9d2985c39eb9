import { lookForStalledEveryMs } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import { groupByTag } from '../../shared/redis/cluster.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { existingKeys } from '../replies/existing-keys.ts';
import type { LaneWorker } from './lane-worker.ts';

type PoolQueue = { pool: string; worker: Pick<LaneWorker, 'activeKey' | 'waitingKeys' | 'setMarker' | 'recover'> };

/**
 * A marker is lost if its worker dies before it takes the job, or if the worker that knows of a delayed job stops before the job is due.
 * Then the marker is set again within 5 s.
 */
const checksPerMarker = 2;

/**
 * Puts stalled jobs back into their queues, and sets lost markers, at a regular interval until it is disposed of
 * (contract.md#o11-stalled-jobs).
 */
export function startStalledRecovery(deps: {
  queues: () => readonly PoolQueue[];
  /** Whether this worker looks for stalled jobs of a pool. */
  checksStalled: (pool: string) => boolean;
  /** For regular checks; see `Connections`. */
  upkeepRedis: Redis;
  log: Log;
}): Disposable {
  const { queues, checksStalled, upkeepRedis, log } = deps;
  let checks = 0;

  async function recoverAll(): Promise<void> {
    const workers = queues().flatMap(({ pool, worker }) => (checksStalled(pool) ? [worker] : []));
    const isForMarkers = ++checks % checksPerMarker === 0;
    const groups = upkeepRedis.isCluster ? groupByTag(workers, ({ activeKey }) => activeKey) : [workers];
    await Promise.all(groups.map((group) => recover(group, isForMarkers).catch(report)));
  }

  /** Most queues are empty. One command finds that out for all of them; in a cluster, for those of a model. */
  async function recover(workers: readonly PoolQueue['worker'][], isForMarkers: boolean): Promise<void> {
    const keys = workers.flatMap(({ activeKey, waitingKeys }) => [activeKey, ...(isForMarkers ? waitingKeys : [])]);
    const existing = await existingKeys(upkeepRedis, keys);
    for (const { waitingKeys, setMarker } of workers) if (waitingKeys.some((key) => existing.has(key))) setMarker();
    await Promise.all(workers.filter(({ activeKey }) => existing.has(activeKey)).map((worker) => worker.recover()));
  }

  const report = (error: unknown) => log.debug({ err: error }, 'stalled jobs were not looked for');
  const timer = setInterval(() => void recoverAll(), lookForStalledEveryMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
