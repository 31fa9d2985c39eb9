import type { Redis } from 'ioredis';
import { lookForStalledEveryMs } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import { existingKeys } from '../redis/existing-keys.ts';
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
  queues: readonly PoolQueue[];
  /** Whether this worker looks for stalled jobs of a pool. */
  checksStalled: (pool: string) => boolean;
  connection: Redis;
  log: Log;
}): Disposable {
  const { queues, checksStalled, connection, log } = deps;
  let checks = 0;

  /** Most queues are empty. One command finds that out for all of them. */
  async function recover(): Promise<void> {
    const workers = queues.flatMap(({ pool, worker }) => (checksStalled(pool) ? [worker] : []));
    const isForMarkers = ++checks % checksPerMarker === 0;
    const keys = workers.flatMap(({ activeKey, waitingKeys }) => [activeKey, ...(isForMarkers ? waitingKeys : [])]);
    const existing = await existingKeys(connection, keys);
    for (const { waitingKeys, setMarker } of workers) if (waitingKeys.some((key) => existing.has(key))) setMarker();
    await Promise.all(workers.filter(({ activeKey }) => existing.has(activeKey)).map((worker) => worker.recover()));
  }

  const timer = setInterval(() => {
    recover().catch((error: unknown) => log.debug({ err: error }, 'stalled jobs were not looked for'));
  }, lookForStalledEveryMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
