import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../shared/process/log.ts';
import type { CallOutcome } from '../backends/backend-health.ts';
import type { BackendSlots, SlotAnswer } from '../backends/backend-slots.ts';
import type { Slot } from '../backends/reservation.ts';
import type { RetryBudget } from '../backends/retry-budget.ts';
import { BackendError } from '../exchange/backend-error.ts';
import { bodyFor } from '../exchange/body-for.ts';
import type { CallBackend } from '../exchange/call-backend.ts';
import type { createOwnFields } from '../exchange/own-fields.ts';
import type { AnswerMetrics } from './answer-metrics.ts';
import { type Answer, answerStream, answerWhole } from './answer-request.ts';
import type { CallingRun } from './run.ts';

/**
 * What came of looking for a backend that answers. `refused`: the request is at fault, in the backend's words; `interrupted`:
 * the answer broke off after a part of it was sent; `exhausted`: none answers (`attempted`: those that were tried, in that
 * order); `late`: none had room for as long as it may wait; `stopped`: its signal was aborted.
 */
export type Found =
  | { outcome: 'answered'; answer: Answer }
  | { outcome: 'refused'; message: string }
  | { outcome: 'exhausted'; attempted: string[] }
  | { outcome: 'interrupted' | 'late' | 'stopped' };

export type FindAnswer = (run: CallingRun) => Promise<Found>;

type Passed = Found | { outcome: 'failed' };
type Attempt = { outcome: 'answered'; answer: Answer } | { outcome: 'failed'; error: BackendError };

const roundPauseMs = 500;

/** Asks the backends of a run's model, one after another, until one answers. Nothing of it is settled or said. */
export function createFindAnswer(deps: {
  slots: BackendSlots;
  retryBudget: RetryBudget;
  apiKeys: Readonly<Record<string, string>>;
  callBackend: CallBackend;
  ownFields: ReturnType<typeof createOwnFields>;
  /** What a second round has to leave for, in milliseconds. */
  firstTokenMs: number;
  metrics: AnswerMetrics;
  log: Log;
  random?: () => number;
}): FindAnswer {
  const { slots, retryBudget, metrics, log, random = Math.random } = deps;

  /**
   * The first pass over the backends is never limited; a second one is, or an outage would double its own load. A line of a
   * batch has none: it waits for longer, and in no worker.
   */
  return async function findAnswer(run: CallingRun): Promise<Found> {
    const { model } = run.job;
    const attempted: string[] = [];
    if (run.lane === 'interactive') retryBudget.earn();
    const first = await passOver(run, attempted);
    if (first.outcome !== 'failed') return first;
    if (attempted.length === 0) return { outcome: 'exhausted', attempted: slots.namesOf(model) };
    if (!mayTryAgain(run)) return { outcome: 'exhausted', attempted };
    metrics.retryRounds.inc({ model });
    await sleep(random() * roundPauseMs, undefined, { signal: run.signal }).catch(() => {}); // passOver looks at the signal
    const second = await passOver(run, attempted);
    return second.outcome === 'failed' ? { outcome: 'exhausted', attempted } : second;
  };

  function mayTryAgain({ job, lane, leftMs }: CallingRun): boolean {
    if (lane === 'batch' || slots.allRefuse(job.model) || leftMs() < roundPauseMs + deps.firstTokenMs) return false;
    return retryBudget.spend();
  }

  /** Until its first token a stream, and until its end a whole answer, can move on to the next backend. */
  async function passOver(run: CallingRun, attempted: string[]): Promise<Passed> {
    const { job, lane, signal } = run;
    const tried = new Set<string>();
    while (true) {
      const reserved = run.reservation?.use();
      const taken: SlotAnswer =
        reserved === undefined
          ? await slots.take({ model: job.model, lane, tried, waitMs: run.mayWaitMs(), signal })
          : { outcome: 'slot', slot: reserved };
      if (signal.aborted) {
        if (taken.outcome === 'slot') taken.slot.end('abandoned');
        return { outcome: 'stopped' };
      }
      // Where some have failed and no other has room in time, none could answer.
      if (taken.outcome === 'refused' || (taken.outcome !== 'slot' && attempted.length > 0))
        return { outcome: 'failed' };
      if (taken.outcome !== 'slot') return { outcome: taken.outcome };
      const { slot } = taken;
      tried.add(slot.name);
      if (!attempted.includes(slot.name)) attempted.push(slot.name);
      const attempt = await tryBackend(run, slot);
      if (attempt.outcome === 'answered') return attempt;
      if (signal.aborted) return { outcome: 'stopped' };
      if (attempt.error.outcome === 'refused_request') return { outcome: 'refused', message: attempt.error.message };
      if (run.received !== undefined) return { outcome: 'interrupted' };
    }
  }

  async function tryBackend(run: CallingRun, slot: Slot): Promise<Attempt> {
    const { job, reply, ledger, signal } = run;
    const { name, backend } = slot;
    const labels = { backend: name, model: job.model };
    const endTimer = metrics.attemptDuration.startTimer(labels);
    const endFirstToken = metrics.firstToken.startTimer(labels);
    const endAttempt = ledger.beginAttempt(name);
    const end = (outcome: BackendError['outcome']) => {
      endTimer();
      endAttempt(outcome);
      metrics.attempts.inc({ ...labels, outcome });
    };
    const call = {
      backend,
      apiKey: deps.apiKeys[name],
      requestId: job.requestId,
      body: bodyFor(job, backend, deps.ownFields(run, backend)),
      signal,
    };
    const begunAt = performance.now();
    let isAnswered = false;
    try {
      const answerJob = job.stream ? answerStream : answerWhole;
      const { isOverLimit, ...answer } = await answerJob({
        job,
        call,
        callBackend: deps.callBackend,
        reply,
        onFirstToken(received) {
          isAnswered = true;
          if (received !== undefined) run.received = received;
          ledger.firstToken();
          endFirstToken();
          slot.firstToken();
        },
      });
      slot.end('answered');
      end(isOverLimit ? 'over_limit' : 'completed');
      if (isOverLimit) {
        log.warn(
          { requestId: job.requestId, backend: name },
          'a backend went on past the output limit; its answer was cut',
        );
      }
      log.debug({ requestId: job.requestId, backend: name, usage: answer.usage }, 'answered');
      return { outcome: 'answered', answer };
    } catch (error) {
      // A fault in passing the answer on is ours, and no reason to ask another backend.
      if (!(error instanceof BackendError)) {
        slot.end('abandoned');
        end('fault');
        throw error;
      }
      const outcome = signal.aborted ? 'stopped' : error.outcome;
      // One that has no first token of its own to be late with is silent until the deadline.
      const wasSilent = signal.reason === 'deadline' && !isAnswered && performance.now() - begunAt >= deps.firstTokenMs;
      slot.end(wasSilent ? 'failed' : shownBy(outcome), error.retryAfterMs);
      end(outcome);
      // A refused request is the client's affair, and the backend's words may quote it.
      if (outcome !== 'stopped' && outcome !== 'refused_request')
        log.warn({ err: error, requestId: job.requestId, backend: name }, 'a backend failed');
      return { outcome: 'failed', error };
    }
  }
}

/** What a call that gave no answer shows of its backend. */
function shownBy(outcome: BackendError['outcome']): CallOutcome {
  if (outcome === 'stopped') return 'abandoned';
  return outcome === 'refused_request' ? 'answered' : 'failed';
}
