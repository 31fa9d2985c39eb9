import type { Redis } from 'ioredis';
import type { Log } from '../../shared/log.ts';
import { repeatWhile } from '../../shared/repeat-while.ts';

/** Tells a run that the ingress behind its reply stream is gone, also while it has nothing to send. */
export interface ReaderWatch extends Disposable {
  /** Calls `onGone` once the stream is found gone; what it returns ends the watch. */
  follow(replyTo: string, onGone: () => void): () => void;
}

type Parts = { redis: Redis; log: Log; everyMs?: number };

/**
 * Looks every few seconds whether the reply streams of the runs in hand are still there, one call for each ingress: a whole
 * answer is sent at its end only, and until then nothing else would tell that its ingress was killed.
 */
export function watchReaders({ redis, log, everyMs = 5_000 }: Parts): ReaderWatch {
  const readers = new Map<string, Set<() => void>>();

  async function look(): Promise<void> {
    const streams = [...readers.keys()];
    const found = await Promise.all(streams.map((stream) => redis.exists(stream)));
    for (const [index, stream] of streams.entries()) {
      if (found[index] === 0) for (const onGone of readers.get(stream) ?? []) onGone();
    }
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
