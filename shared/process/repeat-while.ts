type Repeated = {
  everyMs: number;
  /** It is not begun again before it has ended: a Redis or a store that is away keeps one call waiting, not more and more. */
  work: () => Promise<void>;
  /** Asked before each time. Once it is false, nothing is done until `begin` is called again. */
  isNeeded: () => boolean;
  onFailure: (error: unknown) => void;
};

/** Repeats work from `begin` on while it is needed. A timer in an idle process would wake it for nothing. */
export interface RepeatedWhile extends Disposable {
  /** Of no effect while it goes on. */
  begin(): void;
}

export function repeatWhile({ everyMs, work, isNeeded, onFailure }: Repeated): RepeatedWhile {
  let timer: NodeJS.Timeout | undefined;
  let isWorking = false;

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  async function workOnce(): Promise<void> {
    if (isWorking) return;
    isWorking = true;
    await work().catch(onFailure);
    isWorking = false;
  }

  return {
    begin() {
      timer ??= setInterval(() => (isNeeded() ? void workOnce() : stop()), everyMs);
    },
    [Symbol.dispose]: stop,
  };
}
