/** A worker needs 512 MiB of memory in total, and holds more than one copy of a payload while it is read and sent. */
const defaultBytesMax = 134_217_728;

/**
 * Bounds the memory of a process. A worker learns the size of a job only by taking it. So the rest of `bytesMax` is counted in jobs of
 * `bodyBytesMax`. One job may be taken while there is any room, so the bound can be exceeded by one payload.
 */
export function createHeldPayloads({
  bodyBytesMax,
  bytesMax = defaultBytesMax,
}: {
  bodyBytesMax: number;
  bytesMax?: number;
}) {
  let held = 0;
  return {
    /** Counts a payload until it is disposed of. */
    hold(bytes: number): Disposable {
      held += bytes;
      return {
        [Symbol.dispose]() {
          held -= bytes;
        },
      };
    },
    /** How many more jobs may be taken now; 0 if there is no room. */
    furtherJobs: (): number => (held >= bytesMax ? 0 : Math.max(1, Math.floor((bytesMax - held) / bodyBytesMax))),
  };
}

/** The payloads of the jobs in progress in this process. */
export type HeldPayloads = ReturnType<typeof createHeldPayloads>;
