import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { bellKey, queuePrefix } from '../../shared/redis/keys.ts';
import type { Dispatcher } from './dispatcher.ts';

/** Waits for jobs in many queues at once, on one connection. */
interface JobWait extends AsyncDisposable {
  /** The queues to wait for have changed. No effect if all of them are already awaited. */
  changed(): void;
}

/** Shorter than the silence after which the connection is replaced (shared/redis/connections.ts). */
const blockSeconds = 4;
const failedPauseMs = 1_000;
const bellLifeMs = 60_000;
const closeMs = 500;

/**
 * BullMQ sets a queue's marker with each job that is added, and with each that is taken, unless that was the last one (clear-marker.lua).
 * `BZPOPMIN` gives the marker to the client that has waited longest. So each job wakes one worker, and idle workers take turns.
 */
export function waitForJobs({
  reader,
  redis,
  markers,
  onMarker,
  bellKey,
  log,
}: {
  /** A separate connection: a blocked read delays every command after it. */
  reader: Redis;
  redis: Redis;
  /** The markers of the queues to wait for now, except these. */
  markers: (except?: ReadonlySet<string>) => readonly string[];
  /**
   * A marker was taken: there may be a job, now or at `at` (milliseconds since 1970). Resolves when it is known whether to wait for its
   * queue again.
   */
  onMarker: (marker: string, at: number) => Promise<void> | undefined;
  /** A sorted set that only this process uses, to end its own wait. */
  bellKey: string;
  log: Log;
}): JobWait {
  const closing = new AbortController();
  let waitedFor: ReadonlySet<string> | undefined;
  let isWaking = false;

  async function waitOnce(): Promise<void> {
    const keys = markers();
    waitedFor = new Set(keys);
    const answer = await reader.bzpopmin(...keys, bellKey, blockSeconds);
    waitedFor = undefined;
    if (answer !== null && answer[0] !== bellKey) await onMarker(answer[0], Number(answer[2]));
  }

  async function waitUntilClosed(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await waitOnce();
      } catch (error) {
        waitedFor = undefined;
        if (closing.signal.aborted) return;
        log.warn({ err: error }, 'waiting for jobs failed; trying again');
        await sleep(failedPauseMs, undefined, { signal: closing.signal }).catch(() => {});
      }
    }
  }

  async function wake(): Promise<void> {
    isWaking = true;
    await redis
      .multi()
      .zadd(bellKey, 0, '0')
      .pexpire(bellKey, bellLifeMs)
      .exec()
      .catch((error: unknown) => log.debug({ err: error }, 'a wait for jobs could not be ended'));
    isWaking = false;
  }

  const waiting = waitUntilClosed();

  return {
    changed() {
      if (isWaking || closing.signal.aborted || waitedFor === undefined) return;
      if (markers(waitedFor).length > 0) void wake();
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      reader.disconnect();
      await within(closeMs, waiting);
    },
  };
}

/** Waits for jobs of all models that this worker serves. */
type ServedWait = JobWait & { serve(models: readonly string[]): void };

/** In a cluster, one command cannot wait for the queues of several models, so each model has its own connection. */
export function openJobWait(
  deps: {
    connection: Redis;
    /** Opens a separate connection, which is blocked while jobs are awaited. */
    connectReader: () => Redis;
    workerId: string;
    log: Log;
  },
  { awaited, mayHaveJob }: Pick<Dispatcher, 'awaited' | 'mayHaveJob'>,
): ServedWait {
  const { connection, connectReader, workerId, log } = deps;
  const common = { redis: connection, onMarker: mayHaveJob, log };
  if (!connection.isCluster) {
    const wait = waitForJobs({ ...common, reader: connectReader(), bellKey: bellKey(workerId), markers: awaited });
    return { ...wait, serve() {} };
  }
  const waits = new Map<string, JobWait>();
  const ending = new Set<PromiseLike<void>>();

  function waitFor(model: string): JobWait {
    const isOfModel = (marker: string) => marker.startsWith(queuePrefix(model));
    const markers = (except?: ReadonlySet<string>) => awaited(except).filter(isOfModel);
    return waitForJobs({ ...common, reader: connectReader(), bellKey: bellKey(workerId, model), markers });
  }

  function end(model: string, wait: JobWait): void {
    waits.delete(model);
    const ended = wait[Symbol.asyncDispose]().then(() => void ending.delete(ended));
    ending.add(ended);
  }

  return {
    serve(models) {
      for (const model of models) if (!waits.has(model)) waits.set(model, waitFor(model));
      for (const [model, wait] of waits) if (!models.includes(model)) end(model, wait);
    },
    changed() {
      for (const wait of waits.values()) wait.changed();
    },
    async [Symbol.asyncDispose]() {
      for (const [model, wait] of waits) end(model, wait);
      await Promise.all(ending);
    },
  };
}
