import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Log } from '../../shared/process/log.ts';
import { within } from '../../shared/process/shutdown.ts';

/** Waits for jobs in many queues at once, by one connection. */
export interface JobWait extends AsyncDisposable {
  /** The queues to wait for have changed. Of no effect while all of these are waited for. */
  changed(): void;
}

/** Shorter than the silence after which the connection is replaced (shared/redis/connections.ts). */
const blockSeconds = 4;
const failedPauseMs = 1_000;
const bellLifeMs = 60_000;
const closeMs = 500;

/**
 * BullMQ sets a queue's marker with each job that it adds, and with each that is taken. `BZPOPMIN` gives a marker to one of those
 * that wait for it, the one that has waited longest; so each job wakes one worker, and idle workers take turns.
 */
export function waitForJobs({
  reader,
  redis,
  markers,
  onMarker,
  bellKey,
  log,
}: {
  /** A connection of its own: a blocked read holds up everything behind it. */
  reader: Redis;
  redis: Redis;
  /** The markers of the queues that are to be waited for now, except these. */
  markers: (except?: ReadonlySet<string>) => readonly string[];
  /**
   * A marker was taken: there may be a job, at once or from `at` on (milliseconds since 1970). Resolves once it is known whether
   * its queue is to be waited for again.
   */
  onMarker: (marker: string, at: number) => Promise<void> | undefined;
  /** A sorted set of this process alone, by which it ends its own wait. */
  bellKey: string;
  log: Log;
}): JobWait {
  const closing = new AbortController();
  let waitedFor: ReadonlySet<string> | undefined;
  let isRinging = false;

  async function waitOnce(): Promise<void> {
    const keys = markers();
    waitedFor = new Set(keys);
    const answer = await reader.bzpopmin(...keys, bellKey, blockSeconds);
    waitedFor = undefined;
    if (answer !== null && answer[0] !== bellKey) await onMarker(answer[0], Number(answer[2]));
  }

  async function keepWaiting(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await waitOnce();
      } catch (error) {
        waitedFor = undefined;
        if (closing.signal.aborted) return;
        log.warn({ err: error }, 'jobs could not be waited for; trying again');
        await sleep(failedPauseMs, undefined, { signal: closing.signal }).catch(() => {});
      }
    }
  }

  async function ring(): Promise<void> {
    isRinging = true;
    await redis
      .multi()
      .zadd(bellKey, 0, '0')
      .pexpire(bellKey, bellLifeMs)
      .exec()
      .catch((error: unknown) => log.debug({ err: error }, 'a wait for jobs could not be ended'));
    isRinging = false;
  }

  const waiting = keepWaiting();

  return {
    changed() {
      if (isRinging || closing.signal.aborted || waitedFor === undefined) return;
      if (markers(waitedFor).length > 0) void ring();
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      reader.disconnect();
      await within(closeMs, waiting);
    },
  };
}
