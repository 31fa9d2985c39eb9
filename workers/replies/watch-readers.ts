import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import type { Log } from '../../shared/process/log.ts';
import { existingKeys, inOneSlot, type Redis } from '../../shared/redis/connections.ts';

/**
 * Checks every few seconds whether the reply streams of the runs in progress still exist. A whole answer is sent only
 * at its end, and until then nothing else would show that its ingress was killed (contract.md#p1-reply-stream).
 */
export function watchReaders({ redis, log, everyMs = 5_000 }: { redis: Redis; log: Log; everyMs?: number }) {
  const readers = new Map<string, Set<() => void>>();

  async function check(): Promise<void> {
    await Promise.all(inOneSlot(redis, [...readers.keys()]).map(checkStreams));
  }

  async function checkStreams(streams: readonly string[]): Promise<void> {
    const existing = await existingKeys(redis, streams);
    for (const stream of streams) if (!existing.has(stream)) for (const onGone of readers.get(stream) ?? []) onGone();
  }

  const checking = repeatWhile({
    everyMs,
    work: check,
    isNeeded: () => readers.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'reply streams could not be checked'),
  });

  return {
    /** Calls `onGone` when the stream is gone. Returns a function that ends the watch. */
    follow(replyTo: string, onGone: () => void): () => void {
      const runs = readers.get(replyTo) ?? new Set();
      readers.set(replyTo, runs.add(onGone));
      checking.begin();
      return () => {
        runs.delete(onGone);
        if (runs.size === 0 && readers.get(replyTo) === runs) readers.delete(replyTo);
      };
    },
    [Symbol.dispose]: checking[Symbol.dispose],
  };
}

/** Detects for a run that the ingress behind its reply stream is gone, also while the run has nothing to send. */
export type ReaderWatch = ReturnType<typeof watchReaders>;
