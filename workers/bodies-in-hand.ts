/** The bodies of the jobs that this process has in hand. */
export interface BodiesInHand {
  /** Counts a body until it is disposed. */
  hold(bytes: number): Disposable;
  /** `listener` is given how many further jobs a lane may take, now and after each change; the function that it returns ends that. */
  follow(listener: (further: number) => void): () => void;
}

/** A worker learns how large a job is by taking it, so it takes no more at once than there is room for jobs of this size. */
const largestBodyBytes = 4_194_304;

/**
 * Bounds the memory of a process, which all of its pools and lanes share: those that follow it share what room there is. No job is to
 * be taken while more than `bytesMax` is held.
 */
export function createBodiesInHand({ bytesMax }: { bytesMax: number }): BodiesInHand {
  const listeners = new Set<(further: number) => void>();
  let held = 0;

  function tell(): void {
    const further = Math.max(0, Math.floor((bytesMax - held) / largestBodyBytes / listeners.size));
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
