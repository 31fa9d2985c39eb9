/** A time limit that is set again and again. */
export interface TimeLimit extends Disposable {
  /** Sets a new time limit in milliseconds and its callback. It replaces the previous one. */
  expectWithin(ms: number, onLate: () => void): void;
  /** Removes the time limit until the next one is set. */
  relax(): void;
}

/** Setting a limit is cheap, because it happens with every event: one timer checks the limit when it may be over. */
export function createTimeLimit(now = () => performance.now()): TimeLimit {
  let due = Number.POSITIVE_INFINITY;
  let late = () => {};
  let timer: NodeJS.Timeout | undefined;
  let checksAt = Number.POSITIVE_INFINITY;

  function setTimer(): void {
    clearTimeout(timer);
    checksAt = due;
    if (due === Number.POSITIVE_INFINITY) return;
    // Node warns of a negative time, on the worker's stderr. In a process that was frozen, late timers run before the sockets are read.
    timer = setTimeout(setImmediate, Math.max(0, due - now()), check);
  }

  function check(): void {
    const isLate = due <= now();
    if (isLate) due = Number.POSITIVE_INFINITY;
    setTimer();
    if (isLate) late();
  }

  return {
    expectWithin(ms, onLate) {
      due = now() + ms;
      late = onLate;
      // A timer that is set for an earlier time checks again then.
      if (due < checksAt) setTimer();
    },
    relax() {
      due = Number.POSITIVE_INFINITY;
    },
    [Symbol.dispose]() {
      due = Number.POSITIVE_INFINITY;
      setTimer();
    },
  };
}
