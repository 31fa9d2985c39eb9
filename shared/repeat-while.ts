type Repeated = {
  everyMs: number;
  work: () => void;
  /** Asked before each time; if it is not, nothing is done until `begin` is called again. */
  isNeeded: () => boolean;
};

/** Does something every so often from `begin` on, while it is needed: a timer in an idle process would wake it for nothing. */
export interface RepeatedWhile extends Disposable {
  /** Of no effect while it goes on. */
  begin(): void;
}

export function repeatWhile({ everyMs, work, isNeeded }: Repeated): RepeatedWhile {
  let timer: NodeJS.Timeout | undefined;

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  return {
    begin() {
      timer ??= setInterval(() => (isNeeded() ? work() : stop()), everyMs);
    },
    [Symbol.dispose]: stop,
  };
}
