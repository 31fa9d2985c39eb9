import type { BatchRetry } from '../../../shared/batches/batch.ts';
import type { BatchJob } from './batch-job.ts';

type Tried = Pick<BatchJob, 'batch' | 'line' | 'number' | 'failures' | 'losses'>;

/** Requests of a line of which nothing came, not even a backend's fault: after so many it ends in the error file. */
const lossesMax = 3;

const firstPauseMs = 1_000;
/** A line that its backends can never answer costs them a call in so long, until its window ends. */
const pauseMsMax = 300_000;

/** The next request of a line whose backends have failed: after a pause that grows, with jitter, so that they do not come at once. */
export function retryAfterFailure(tried: Tried, now: number, random: () => number = Math.random): BatchRetry {
  const failures = tried.failures + 1;
  const pauseMs = Math.min(pauseMsMax, firstPauseMs * 2 ** Math.min(failures - 1, 10)) * (0.5 + random() / 2);
  return { ...next(tried), failures, notBefore: new Date(now + pauseMs) };
}

/** The next request of a line whose last one was lost; undefined where there have been too many. */
export function retryAfterLoss(tried: Tried, now: number): BatchRetry | undefined {
  const losses = tried.losses + 1;
  return losses >= lossesMax ? undefined : { ...next(tried), losses, notBefore: new Date(now) };
}

/** The next request of a line that no backend was called for: it has waited for room, and goes on waiting. */
export function retryAfterWaiting(tried: Tried, now: number): BatchRetry {
  return { ...next(tried), notBefore: new Date(now) };
}

function next({ batch, line, number, failures, losses }: Tried): Omit<BatchRetry, 'notBefore'> {
  return { batch, line, number: number + 1, failures, losses };
}
