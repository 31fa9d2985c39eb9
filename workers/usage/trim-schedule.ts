/**
 * When what was drained may go: not before it has been in the store for a while, as whoever begins to count an account's usage
 * reads the store first, and then what the outbox has beyond it.
 */
export interface TrimSchedule {
  /** The partition's outbox is in the store up to this stream id. */
  note(partition: number, upTo: string): void;
  /** The stream id up to which it may go now. */
  due(partition: number): string | undefined;
  /** What was due has gone. */
  trimmed(partition: number): void;
}

type Partition = { latest: string; waiting: { upTo: string; since: number }[] };

/** `now` is a clock in milliseconds that only goes forward. What others have drained counts from when it was seen here. */
export function createTrimSchedule({ afterMs, now }: { afterMs: number; now: () => number }): TrimSchedule {
  const partitions = new Map<number, Partition>();
  return {
    note(partition, upTo) {
      const { latest, waiting } = partitions.get(partition) ?? { latest: undefined, waiting: [] };
      if (latest === upTo) return;
      // The one that is due next and the latest are enough, however many there are in between.
      const next = waiting.slice(0, 1);
      partitions.set(partition, { latest: upTo, waiting: [...next, { upTo, since: now() }] });
    },
    due(partition) {
      const [next] = partitions.get(partition)?.waiting ?? [];
      if (next === undefined || now() - next.since < afterMs) return undefined;
      return next.upTo;
    },
    trimmed(partition) {
      partitions.get(partition)?.waiting.shift();
    },
  };
}
