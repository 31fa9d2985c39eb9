import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { type Lane, lanes } from '../../shared/redis/keys.ts';

/** Jobs that wait for a backend, in the order of asking. Lines of batches come after all others. */
interface WaitingJobs<Ask extends WaitingAsk, Result> extends Disposable {
  /** Resolves with the first result of `answer`, or with `late` when the time is over or it is aborted. */
  wait(ask: Ask): Promise<Result>;
  /** Something has changed: jobs that now have a result get it. */
  serve(): void;
  count(): number;
}

type WaitingAsk = { lane: Lane; holder: string; waitMs: number; signal: AbortSignal };

type WaitingRules<Ask, Result> = {
  /** Undefined if the job has to wait. A result that is returned has been taken. */
  answer: (ask: Ask) => Result | undefined;
  /** Equal for jobs that would get the same result: if one of a lane has to wait, the others are skipped. */
  alike: (ask: Ask) => string;
  /** Whether a job that has to wait does so because of its own account: then only those of this account are skipped. */
  isHeldBack: (ask: Ask) => boolean;
  late: Result;
};

/** Some changes come without an event: a pause ends, or a first-token time becomes stale. */
const serveEveryMs = 250;

export function createWaitingJobs<Ask extends WaitingAsk, Result>(
  deps: WaitingRules<Ask, Result>,
): WaitingJobs<Ask, Result> {
  const { answer, alike, isHeldBack, late } = deps;
  const waiting = new Map<(result: Result) => void, { ask: Ask; kind: string }>();

  /** Of 500 jobs that wait for one model, only one is checked. */
  function serve(): void {
    for (const lane of lanes) {
      const kept = new Set<string>();
      for (const [settle, { ask, kind }] of waiting) {
        const ofHolder = `${kind} ${ask.holder}`;
        if (ask.lane !== lane || kept.has(kind) || kept.has(ofHolder)) continue;
        const result = answer(ask);
        if (result !== undefined) settle(result);
        else kept.add(isHeldBack(ask) ? ofHolder : kind);
      }
    }
  }

  const serving = repeatWhile({
    everyMs: serveEveryMs,
    work: async () => serve(),
    isNeeded: () => waiting.size > 0,
    onFailure(error) {
      throw error; // an error in choosing ends the process, as it does when a job asks
    },
  });

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
        waiting.set(settle, { ask, kind: alike(ask) });
        serving.begin();
      });
    },
    serve,
    count: () => waiting.size,
    [Symbol.dispose]() {
      serving[Symbol.dispose]();
      for (const settle of waiting.keys()) settle(late);
    },
  };
}
