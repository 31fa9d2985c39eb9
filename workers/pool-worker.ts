import type { Lane } from '../shared/lane.ts';
import { type LaneParts, type RequestWorker, startRequestWorker } from './request-worker.ts';

export type PoolWorker = Pick<RequestWorker, 'cancel' | 'finish' | 'handBackAll'>;

/** What is done with the jobs of a lane. */
export type LaneWork = Pick<LaneParts, 'processJob' | 'endLost'>;
type Parts = Omit<LaneParts, 'lane' | 'hasRoom' | 'onRunning' | keyof LaneWork> & {
  work: Readonly<Record<Lane, LaneWork>>;
  /** Jobs of the batch lane at once, at most; 0: it is not served. */
  batchConcurrency: number;
};

/** How soon the batch lane is given what the interactive lane has left free, in milliseconds. */
const lookAfterMs = 250;

/**
 * Serves both lanes of a pool: `concurrency` jobs at once, of which the batch lane takes only what the interactive lane leaves
 * free. What the batch lane has in hand is never taken from it, so that both together can pass `concurrency` for a while.
 */
export function startPoolWorker({ batchConcurrency, work, ...parts }: Parts): PoolWorker {
  const { concurrency } = parts;
  if (batchConcurrency === 0) {
    return poolWorkerOf([startRequestWorker({ ...parts, ...work.interactive, lane: 'interactive' })]);
  }

  let looking: NodeJS.Timeout | undefined;

  /** After what either lane has in hand has changed: a lane without room has something, which ends. */
  function lookSoon(): void {
    looking ??= setTimeout(look, lookAfterMs);
  }

  function look(): void {
    looking = undefined;
    if (hasRoom()) batch.resume();
    else batch.pause();
  }

  const onRunning = lookSoon;
  const interactive = startRequestWorker({ ...parts, ...work.interactive, lane: 'interactive', onRunning });
  const hasRoom = () => interactive.running() + batch.running() < concurrency;
  const batch: RequestWorker = startRequestWorker({
    ...parts,
    ...work.batch,
    lane: 'batch',
    concurrency: batchConcurrency,
    hasRoom,
    onRunning,
  });
  return poolWorkerOf([interactive, batch], () => clearTimeout(looking));
}

function poolWorkerOf(lanes: readonly RequestWorker[], stop: () => void = () => {}): PoolWorker {
  return {
    cancel(requestId, reason) {
      for (const lane of lanes) lane.cancel(requestId, reason);
    },
    async finish() {
      stop();
      await Promise.all(lanes.map((lane) => lane.finish()));
    },
    handBackAll() {
      for (const lane of lanes) lane.handBackAll();
    },
  };
}
