import { piecesAheadMax } from '../../shared/jobs/control-messages.ts';

/** Each report costs a command. */
const reportBytes = piecesAheadMax / 2;

/** Calls `report` with all bytes taken so far, each time that they are half of what may be sent ahead more. */
export function createTakenCount(report: (bytes: number) => void) {
  let taken = 0;
  let length = 0;
  let reported = 0;
  let isPaused = false;

  function reportWhatIsDue(): void {
    // The worker may send the rest anyway.
    if (isPaused || length - reported <= piecesAheadMax || taken - reported < reportBytes) return;
    reported = taken;
    report(taken);
  }

  return {
    /** `length`: the bytes of the whole body. */
    add(bytes: number, lengthOfBody: number): void {
      taken += bytes;
      length = lengthOfBody;
      reportWhatIsDue();
    },
    /** While it is paused nothing is reported, so no more pieces come. */
    source: {
      pause() {
        isPaused = true;
      },
      resume() {
        isPaused = false;
        reportWhatIsDue();
      },
    },
  };
}

/** Counts what the client of one request has taken of its pieces. */
export type TakenCount = ReturnType<typeof createTakenCount>;
