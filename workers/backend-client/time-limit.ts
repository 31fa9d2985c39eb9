/** Setting a limit is cheap, because it happens with every event: one timer checks the limit when it may be over. */
export function createTimeLimit(now = () => performance.now()) {
  let due = Number.POSITIVE_INFINITY;
  let late = () => {};
  let timer: NodeJS.Timeout | undefined;
  let checksAt = Number.POSITIVE_INFINITY;
  let suspendedAt: number | undefined;
  let suspended = 0;

  const clock = () => (suspendedAt ?? now()) - suspended;

  function setTimer(): void {
    clearTimeout(timer);
    checksAt = due;
    if (due === Number.POSITIVE_INFINITY || suspendedAt !== undefined) return;
    // Node warns of a negative time, on the worker's stderr. In a process that was frozen, late timers run before the sockets are read.
    timer = setTimeout(setImmediate, Math.max(0, due - clock()), check);
  }

  function check(): void {
    const isLate = suspendedAt === undefined && due <= clock();
    if (isLate) due = Number.POSITIVE_INFINITY;
    setTimer();
    if (isLate) late();
  }

  return {
    /** Sets a new time limit in milliseconds and its callback. It replaces the previous one. */
    expectWithin(ms: number, onLate: () => void): void {
      due = clock() + ms;
      late = onLate;
      // A timer that is set for an earlier time checks again then.
      if (due < checksAt) setTimer();
    },
    /** Removes the time limit until the next one is set. */
    relax(): void {
      due = Number.POSITIVE_INFINITY;
    },
    /** Time does not count until `resume`. */
    suspend(): void {
      suspendedAt ??= now();
      clearTimeout(timer);
      checksAt = Number.POSITIVE_INFINITY;
    },
    resume(): void {
      if (suspendedAt === undefined) return;
      suspended += now() - suspendedAt;
      suspendedAt = undefined;
      setTimer();
    },
    /** Milliseconds for which it was suspended. */
    suspendedMs: (): number => suspended,
    [Symbol.dispose]() {
      due = Number.POSITIVE_INFINITY;
      setTimer();
    },
  };
}

/** A time limit that is set again and again. */
export type TimeLimit = ReturnType<typeof createTimeLimit>;

/** A signal that is aborted with the reason of the first of `parents` that is aborted, or when the time limit is over. */
export function createWatchdog(parents: readonly AbortSignal[], now = () => performance.now()) {
  const controller = new AbortController();
  const timeLimit = createTimeLimit(now);
  const abort = (reason: unknown) => controller.abort(reason);
  // `AbortSignal.any` costs more than all other code here.
  const onParent = () => abort(parents.find(({ aborted }) => aborted)?.reason);
  if (parents.some(({ aborted }) => aborted)) onParent();
  else for (const parent of parents) parent.addEventListener('abort', onParent, { once: true });

  return {
    signal: controller.signal,
    /** Sets a new time limit in milliseconds, and the reason to abort with. It replaces the previous one. */
    expectWithin: (ms: number, reason: () => unknown): void => timeLimit.expectWithin(ms, () => abort(reason())),
    abort,
    [Symbol.dispose]() {
      timeLimit[Symbol.dispose]();
      for (const parent of parents) parent.removeEventListener('abort', onParent);
    },
  };
}
