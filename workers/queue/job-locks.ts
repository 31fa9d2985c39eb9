import { renewLocksEveryMs } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import { repeatWhile } from '../../shared/process/repeat-while.ts';
import type { StopReason } from '../failover/run.ts';

/** A job whose lock is renewed. */
export interface HeldLock {
  /** Aborted with a `StopReason`. */
  signal: AbortSignal;
  /** Stops renewing the lock. Idempotent. */
  release(): void;
}

/** The locks of the jobs of one queue that are in progress in this worker (contract.md#o10-job-locks). */
export function createJobLocks(deps: {
  /** Extends the locks of these jobs by their tokens. Returns the ids of those that could not be extended. */
  extend: (ids: string[], tokens: string[]) => Promise<string[]>;
  queue: string;
  log: Pick<Log, 'warn' | 'debug'>;
}) {
  const { extend, queue, log } = deps;
  const held = new Map<string, { token: string; stop: AbortController }>();

  async function renew(): Promise<void> {
    const renewed = [...held];
    const tokens = renewed.map(([, { token }]) => token);
    const ids = renewed.map(([id]) => id);
    const failed = await extend(ids, tokens);
    // A job that has just ended is no longer this worker's. Its renewal only came too late.
    const lost = failed.filter((id) => held.get(id)?.token === tokens[ids.indexOf(id)]);
    if (lost.length > 0) log.warn({ requests: lost, queue }, 'the locks of jobs were lost');
    for (const id of lost) cancel(id, 'lock lost');
  }

  /** Aborts one job, if this worker has it. */
  function cancel(id: string, reason: StopReason): void {
    held.get(id)?.stop.abort(reason);
  }

  const renewing = repeatWhile({
    everyMs: renewLocksEveryMs,
    work: renew,
    isNeeded: () => held.size > 0,
    onFailure: (error) => log.debug({ err: error, queue }, 'locks of jobs could not be renewed'),
  });

  return {
    hold(id: string, token: string): HeldLock {
      const stop = new AbortController();
      held.set(id, { token, stop });
      renewing.begin();
      return {
        signal: stop.signal,
        release() {
          // If the lock was lost, this worker may have taken the job again meanwhile.
          if (held.get(id)?.stop === stop) held.delete(id);
        },
      };
    },
    cancel,
    cancelAll(reason: StopReason): void {
      for (const { stop } of held.values()) stop.abort(reason);
    },
    count: (): number => held.size,
    [Symbol.dispose]: renewing[Symbol.dispose],
  };
}

export type JobLocks = ReturnType<typeof createJobLocks>;
