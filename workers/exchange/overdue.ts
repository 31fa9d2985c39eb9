/** A time limit that is set again and again. */
export interface Overdue extends Disposable {
  /** Sets a new time limit in milliseconds and its callback. It replaces the one before. */
  expectWithin(ms: number, onLate: () => void): void;
  /** No time limit until the next one is set. */
  relax(): void;
}

/** Setting it is cheap, because it is set with every event: one timer checks it when it may be over. */
export function createOverdue(now = () => performance.now()): Overdue {
  let due = Number.POSITIVE_INFINITY;
  let late = () => {};
  let timer: NodeJS.Timeout | undefined;
  let looksAt = Number.POSITIVE_INFINITY;

  function lookAtDue(): void {
    clearTimeout(timer);
    looksAt = due;
    // Node warns of a negative time, on the worker's stderr.
    if (due !== Number.POSITIVE_INFINITY) timer = setTimeout(look, Math.max(0, due - now()));
  }

  function look(): void {
    const isLate = due <= now();
    if (isLate) due = Number.POSITIVE_INFINITY;
    lookAtDue();
    if (isLate) late();
  }

  return {
    expectWithin(ms, onLate) {
      due = now() + ms;
      late = onLate;
      // A timer that is set for an earlier time looks again then.
      if (due < looksAt) lookAtDue();
    },
    relax() {
      due = Number.POSITIVE_INFINITY;
    },
    [Symbol.dispose]() {
      due = Number.POSITIVE_INFINITY;
      lookAtDue();
    },
  };
}
