import type { Redis } from 'ioredis';
import type { Log } from '../../shared/process/log.ts';
import { repeatWhile } from '../../shared/process/repeat-while.ts';
import { existingKeys } from '../existing-keys.ts';

/** Tells a run that the ingress behind its reply stream is gone, also while it has nothing to send. */
export interface ReaderWatch extends Disposable {
  /** Calls `onGone` once the stream is found gone; what it returns ends the watch. */
  follow(replyTo: string, onGone: () => void): () => void;
}

/**
 * Looks every few seconds whether the reply streams of the runs in hand are still there, all of them by one command: a whole
 * answer is sent at its end only, and until then nothing else would tell that its ingress was killed.
 */
export function watchReaders({
  redis,
  log,
  everyMs = 5_000,
}: {
  redis: Redis;
  log: Log;
  everyMs?: number;
}): ReaderWatch {
  const readers = new Map<string, Set<() => void>>();

  async function look(): Promise<void> {
    const streams = [...readers.keys()];
    const existing = await existingKeys(redis, streams);
    for (const stream of streams) if (!existing.has(stream)) for (const onGone of readers.get(stream) ?? []) onGone();
  }

  const looking = repeatWhile({
    everyMs,
    work: look,
    isNeeded: () => readers.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'it is not known which ingresses are there'),
  });

  return {
    follow(replyTo, onGone) {
      const runs = readers.get(replyTo) ?? new Set();
      readers.set(replyTo, runs.add(onGone));
      looking.begin();
      return () => {
        runs.delete(onGone);
        if (runs.size === 0 && readers.get(replyTo) === runs) readers.delete(replyTo);
      };
    },
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}
