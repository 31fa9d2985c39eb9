import { type Lane, lanes } from '../../shared/lane.ts';

/** Jobs that wait for a backend, in the order of asking; lines of batches behind all others. */
export interface WaitingJobs<Ask extends WaitingAsk, Result> extends Disposable {
  /** Resolves with what `answer` says as soon as it says something, or with `late` when the time is over or it is aborted. */
  wait(ask: Ask): Promise<Result>;
  /** Something has changed: whoever has an answer now gets it. */
  serve(): void;
  count(belongs: (ask: Ask) => boolean): number;
}

type WaitingAsk = { lane: Lane; waitMs: number; signal: AbortSignal };

type Parts<Ask, Result> = {
  /** Undefined where there is nothing but to wait; else what it says has been taken. */
  answer: (ask: Ask) => Result | undefined;
  late: Result;
};

/** Time changes things, too, and tells nobody: a pause is over, a model has not answered for long. */
const serveEveryMs = 250;

export function createWaitingJobs<Ask extends WaitingAsk, Result>(parts: Parts<Ask, Result>): WaitingJobs<Ask, Result> {
  const { answer, late } = parts;
  const waiting = new Map<(result: Result) => void, Ask>();

  function serve(): void {
    for (const lane of lanes) {
      for (const [settle, ask] of waiting) {
        const result = ask.lane === lane ? answer(ask) : undefined;
        if (result !== undefined) settle(result);
      }
    }
  }

  const serving = setInterval(serve, serveEveryMs).unref();

  return {
    wait(ask) {
      return new Promise((resolve) => {
        const settle = (result: Result) => {
          clearTimeout(timer);
          ask.signal.removeEventListener('abort', endWaiting);
          waiting.delete(settle);
          resolve(result);
        };
        const endWaiting = () => settle(late);
        const timer = setTimeout(endWaiting, ask.waitMs);
        ask.signal.addEventListener('abort', endWaiting, { once: true });
        waiting.set(settle, ask);
      });
    },
    serve,
    count: (belongs) => [...waiting.values()].filter(belongs).length,
    [Symbol.dispose]() {
      clearInterval(serving);
      for (const settle of waiting.keys()) settle(late);
    },
  };
}
