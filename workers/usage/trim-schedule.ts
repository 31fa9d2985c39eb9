/**
 * Decides when drained entries may be trimmed. They stay for a while, because a process that seeds an account's counter reads the store
 * first, and then the newer entries of the outbox (contract.md#n12-seeding).
 */
export interface TrimSchedule {
  /** Records that the partition's outbox is in the store up to this stream id. */
  note(partition: number, upTo: string): void;
  /** The stream id up to which the outbox may be trimmed now. */
  due(partition: number): string | undefined;
  /** What was due is trimmed. */
  trimmed(partition: number): void;
}

type Partition = { latest: string; waiting: { upTo: string; since: number }[] };

/** `now`: a monotonic clock in milliseconds. For entries that other workers drained, the time starts when this worker sees it. */
export function createTrimSchedule({ afterMs, now }: { afterMs: number; now: () => number }): TrimSchedule {
  const partitions = new Map<number, Partition>();
  return {
    note(partition, upTo) {
      const { latest, waiting } = partitions.get(partition) ?? { latest: undefined, waiting: [] };
      if (latest === upTo) return;
      // Only the next one due and the latest are kept.
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
