/** The bodies of the jobs that this process has in hand. */
export interface BodiesInHand {
  /** Counts a body until it is disposed. */
  hold(bytes: number): Disposable;
  /**
   * `listener` is given how many further jobs a lane may take, now and after each change: 0 where there is no room. The function
   * that it returns ends that.
   */
  follow(listener: (further: number) => void): () => void;
}

/** A worker needs 512 MiB of memory in all, and a body is there more than once while it is read and sent. */
const defaultBytesMax = 134_217_728;

/**
 * Bounds the memory of a process, which all of its pools and lanes share. A worker learns how large a job is by taking it: so what
 * is left of `bytesMax` is shared out among the lanes in jobs of `bodyBytesMax`. While there is room at all, each lane may take
 * one. Many lanes can together pass the bound by that one.
 */
export function createBodiesInHand({ bodyBytesMax, bytesMax = defaultBytesMax }: Bounds): BodiesInHand {
  const listeners = new Set<(further: number) => void>();
  let held = 0;

  function furtherJobs(): number {
    if (held >= bytesMax) return 0;
    return Math.max(1, Math.floor((bytesMax - held) / bodyBytesMax / listeners.size));
  }

  function tell(): void {
    const further = furtherJobs();
    for (const listener of listeners) listener(further);
  }

  return {
    hold(bytes) {
      held += bytes;
      tell();
      return {
        [Symbol.dispose]() {
          held -= bytes;
          tell();
        },
      };
    },
    follow(listener) {
      listeners.add(listener);
      tell();
      return () => {
        listeners.delete(listener);
        tell();
      };
    },
  };
}

type Bounds = { bodyBytesMax: number; bytesMax?: number };
