import { atBeat } from './at-beat.ts';

type RepeatOptions = {
  everyMs: number;
  /** Does not start again before it has ended: if Redis or a store is unavailable, only one call waits. */
  work: () => Promise<void>;
  /** Checked before each run. Once it is false, no work is done until `begin` is called again. */
  isNeeded: () => boolean;
  onFailure: (error: unknown) => void;
};

/**
 * Repeats work from `begin` on while it is needed. A timer in an idle process would wake it for nothing
 * (decisions.md#few-timers-in-an-idle-process).
 */
export function repeatWhile({ everyMs, work, isNeeded, onFailure }: RepeatOptions) {
  let cancel: (() => void) | undefined;
  let isWorking = false;

  function stop(): void {
    cancel?.();
    cancel = undefined;
  }

  function repeat(): void {
    cancel = isNeeded() ? atBeat(everyMs, repeat) : undefined;
    if (cancel !== undefined) void workOnce();
  }

  async function workOnce(): Promise<void> {
    if (isWorking) return;
    isWorking = true;
    await work().catch(onFailure);
    isWorking = false;
  }

  return {
    /** Has no effect while the work is already being repeated. */
    begin(): void {
      cancel ??= atBeat(everyMs, repeat);
    },
    [Symbol.dispose]: stop,
  };
}
