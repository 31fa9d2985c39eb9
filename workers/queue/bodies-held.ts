/** The bodies of the jobs that this process has in hand. */
export interface BodiesHeld {
  /** Counts a body until it is disposed. */
  hold(bytes: number): Disposable;
  /** How many further jobs may be taken now; 0 if there is no room. */
  furtherJobs(): number;
}

/** A worker needs 512 MiB of memory in all, and a body is there more than once while it is read and sent. */
const defaultBytesMax = 134_217_728;

/**
 * Bounds the memory of a process. A worker learns how large a job is by taking it: so what is left of `bytesMax` counts in jobs of
 * `bodyBytesMax`. While there is room at all, one may be taken: it can pass the bound by that one.
 */
export function createBodiesHeld({ bodyBytesMax, bytesMax = defaultBytesMax }: Bounds): BodiesHeld {
  let held = 0;
  return {
    hold(bytes) {
      held += bytes;
      return {
        [Symbol.dispose]() {
          held -= bytes;
        },
      };
    },
    furtherJobs: () => (held >= bytesMax ? 0 : Math.max(1, Math.floor((bytesMax - held) / bodyBytesMax))),
  };
}

type Bounds = { bodyBytesMax: number; bytesMax?: number };
