import { setTimeout as sleep } from 'node:timers/promises';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { holderOf } from '../../shared/store/records/account.ts';
import type { BackendSlots, SlotAnswer } from '../backends/backend-slots.ts';
import type { Slot } from '../backends/reservation.ts';
import type { AnswerOutcome } from './answer-outcome.ts';
import { noTokens } from './answer-usage.ts';
import { type AskedBackends, createAskedBackends } from './asked-backends.ts';
import { createCallLimits } from './call-limits.ts';
import { countPromptTokens } from './count-tokens.ts';
import type { Decision } from './decide-outcome.ts';
import { treatments } from './outcome.ts';
import { relayedText } from './relayed-text.ts';
import type { CallingRun } from './run.ts';
import { type AnswerMetrics, createTryBackend } from './try-backend.ts';

/** Asks the backends of a run's model, one after another, until one answers. Does not settle the request or send the last reply. */
export type FindAnswer = (run: CallingRun) => Promise<AnswerOutcome>;

/** `none left`: no other backend may be asked. `waited`: those that are left had no room in time. */
type NoAnswer = { outcome: 'none left' | 'waited' };
type PassOutcome = AnswerOutcome | NoAnswer;

function isUnanswered(passed: PassOutcome): passed is NoAnswer {
  return passed.outcome === 'none left' || passed.outcome === 'waited';
}

const roundPauseMs = 500;

export function createFindAnswer(
  deps: Omit<Parameters<typeof createTryBackend>[0], 'callLimits'> & {
    slots: BackendSlots;
    retryBudget?: RetryBudget;
    /** The time that must be left for a second round, in milliseconds. */
    firstTokenMs: () => number;
    metrics: AnswerMetrics;
    random?: () => number;
  },
): FindAnswer {
  const { slots, retryBudget = createRetryBudget(), metrics, random = Math.random } = deps;
  const tryBackend = createTryBackend({ ...deps, callLimits: createCallLimits(slots) });

  /**
   * The first pass over the backends is never limited. A second one is, or an outage would double its own load. A line of a batch has
   * no second pass: it waits longer, and not in a worker (contract.md#q3-failover).
   */
  async function askAll(run: CallingRun, asked: AskedBackends): Promise<AnswerOutcome> {
    const { model, endpoint } = run.job;
    if (run.lane === 'interactive') retryBudget.earn();
    const first = await passOver(run, asked);
    if (!isUnanswered(first)) return first;
    const { outcome } = first;
    if (outcome === 'waited' && asked.attempted.length === 0) return { outcome: 'late' };
    if (outcome === 'waited' || !asked.mayHelpToTryAgain() || !mayTryAgain(run)) return asked.result(run);
    metrics.retryRounds.inc({ model, endpoint });
    await sleep(random() * roundPauseMs, undefined, { signal: run.signal }).catch(() => {}); // passOver checks the signal
    const second = await passOver(run, asked);
    return isUnanswered(second) ? asked.result(run) : second;
  }

  return async function findAnswer(run) {
    const found = await askAll(run, createAskedBackends({ slots, job: run.job }));
    return mayEstimate.has(found.outcome) ? ((await estimated(run)) ?? found) : found;
  };

  function mayTryAgain({ job, lane, leftMs }: CallingRun): boolean {
    // An answer without a backend is better than a second round.
    if (endpointAt(job.endpoint).answer.estimate !== undefined) return false;
    if (lane === 'batch' || slots.allRefuse(job.model) || leftMs() < roundPauseMs + deps.firstTokenMs()) return false;
    return retryBudget.spend();
  }

  /** A stream can move on to the next backend until its first token, and a whole answer until its end. */
  async function passOver(run: CallingRun, asked: AskedBackends): Promise<PassOutcome> {
    const { signal } = run;
    const tried = new Set<string>();
    while (asked.mayAskMore()) {
      const taken = await takeSlot(run, asked, tried);
      if (signal.aborted) {
        if (taken.outcome === 'slot') taken.slot.end({ outcome: 'abandoned' });
        return { outcome: 'stopped' };
      }
      if (taken.outcome !== 'slot') return { outcome: taken.outcome === 'late' ? 'waited' : 'none left' };
      const { slot } = taken;
      asked.begin(slot.name);
      const attempt = await tryBackend(run, slot);
      const { received, produced } = attempt;
      if (attempt.outcome !== 'failed') return attempt;
      if (received !== undefined) return { outcome: 'interrupted', received };
      const decision = { ...attempt.decision, words: wordsFor(slot, attempt.decision) };
      if (treatments[decision.outcome].next === 'none') return { outcome: 'refused', by: decision, produced };
      if (asked.note(slot, decision) === 'ask others') tried.add(slot.name);
    }
    return { outcome: 'none left' };
  }

  /** The backend's words, as its client may see them. */
  function wordsFor({ backend }: Slot, { words }: Decision): string {
    return backend.relayMessages === false ? '' : relayedText(words, deps.apiKeyOf(backend));
  }

  async function takeSlot(run: CallingRun, asked: AskedBackends, tried: ReadonlySet<string>): Promise<SlotAnswer> {
    const { job, lane, signal, reservation } = run;
    const holder = holderOf(job);
    return slots.take(
      {
        model: job.model,
        lane,
        holder,
        tried,
        ...asked.limits(),
        waitMs: run.mayWaitMs(),
        signal,
        affinity: job.affinity,
        promptTokens: job.promptEstimate,
      },
      reservation,
    );
  }
}

const mayEstimate: ReadonlySet<AnswerOutcome['outcome']> = new Set(['exhausted', 'late', 'too_long', 'refused']);

/** The answer without a backend, if the endpoint has one. */
async function estimated({ job }: CallingRun): Promise<AnswerOutcome | undefined> {
  const { estimate } = endpointAt(job.endpoint).answer;
  if (estimate === undefined) return undefined;
  return { outcome: 'answered', answer: { body: estimate(await countPromptTokens(job)), usage: noTokens } };
}

const retriesPerRequest = 0.2;
/** The most that quiet times can save, and what a new process starts with. */
const retriesSavedMax = 10;

/**
 * Limits second rounds over the backends to a fifth of all requests, so that retries never double an overload (contract.md#q3-failover).
 */
export function createRetryBudget() {
  let saved = retriesSavedMax;
  return {
    /** A request has arrived. */
    earn(): void {
      saved = Math.min(retriesSavedMax, saved + retriesPerRequest);
    },
    /** False if nothing is left. */
    spend(): boolean {
      if (saved < 1) return false;
      saved -= 1;
      return true;
    },
  };
}

export type RetryBudget = ReturnType<typeof createRetryBudget>;
