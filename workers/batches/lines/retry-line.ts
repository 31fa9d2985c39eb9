import type { BatchRetry } from '../../../shared/batches/batch.ts';
import type { BatchJob } from './batch-job.ts';

type TriedLine = Pick<BatchJob, 'batch' | 'line' | 'number' | 'failures' | 'losses'>;

/** After this many requests that failed without a backend's fault, a line ends in the error file. */
const lossesMax = 3;

const firstPauseMs = 1_000;
/** A line that its backends can never answer costs one call in this time, until its window ends. */
const pauseMsMax = 300_000;

/** The next request of a line whose backends failed. Its pause grows, and has jitter so that lines do not come all at once. */
export function retryAfterFailure(tried: TriedLine, now: number, random: () => number = Math.random): BatchRetry {
  const failures = tried.failures + 1;
  const pauseMs = Math.min(pauseMsMax, firstPauseMs * 2 ** Math.min(failures - 1, 10)) * (0.5 + random() / 2);
  return { ...next(tried), failures, notBefore: new Date(now + pauseMs) };
}

/** The next request of a line whose last one was lost. Undefined if there were too many losses. */
export function retryAfterLoss(tried: TriedLine, now: number): BatchRetry | undefined {
  const losses = tried.losses + 1;
  return losses >= lossesMax ? undefined : { ...next(tried), losses, notBefore: new Date(now) };
}

/** The next request of a line for which no backend was called. It continues to wait for capacity. */
export function retryAfterWaiting(tried: TriedLine, now: number): BatchRetry {
  return { ...next(tried), notBefore: new Date(now) };
}

function next({ batch, line, number, failures, losses }: TriedLine): Omit<BatchRetry, 'notBefore'> {
  return { batch, line, number: number + 1, failures, losses };
}
