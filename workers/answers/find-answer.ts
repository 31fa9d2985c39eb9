import { setTimeout as sleep } from 'node:timers/promises';
import { endpointAt } from '../../shared/endpoints/routes.ts';
import type { BackendSlots, SlotAnswer } from '../backends/backend-slots.ts';
import type { RetryBudget } from '../backends/retry-budget.ts';
import type { AnswerMetrics } from './answer-metrics.ts';
import type { Answer, Received } from './answer-request.ts';
import { countPromptTokens } from './count-tokens.ts';
import type { CallingRun } from './run.ts';
import { createTryBackend } from './try-backend.ts';
import { noTokens } from './usage-report.ts';

/**
 * The result of asking the backends of a run. `refused`: the request is at fault; `message` is the backend's. `exhausted`: no backend
 * answers; `attempted` are those that were tried, in order. `too_large`: the answer exceeds the limit of its model. `late`: no backend had
 * room in time. `interrupted`: the answer broke off
 * after text was sent. `stopped`: the signal was aborted. `fault`: an error of ours. `received` and `produced`: as in an attempt.
 */
export type Found = { received?: Received | undefined; produced?: Received | undefined } & (
  | { outcome: 'answered'; answer: Answer }
  | { outcome: 'refused'; message: string }
  | { outcome: 'exhausted'; attempted: string[] }
  | { outcome: 'interrupted' | 'late' | 'stopped' | 'too_large' }
  | { outcome: 'fault'; error: unknown }
);

/** Asks the backends of a run's model, one after another, until one answers. Does not settle the request or send the last reply. */
export type FindAnswer = (run: CallingRun) => Promise<Found>;

/** `failed`: the backends that were asked in this pass have failed. */
type Passed = Found | { outcome: 'failed' };

const roundPauseMs = 500;

export function createFindAnswer(
  deps: Parameters<typeof createTryBackend>[0] & {
    slots: BackendSlots;
    retryBudget: RetryBudget;
    /** The time that must be left for a second round, in milliseconds. */
    firstTokenMs: () => number;
    metrics: AnswerMetrics;
    random?: () => number;
  },
): FindAnswer {
  const { slots, retryBudget, metrics, random = Math.random } = deps;
  const tryBackend = createTryBackend(deps);

  /**
   * The first pass over the backends is never limited. A second one is, or an outage would double its own load. A line of a batch has
   * no second pass: it waits longer, and not in a worker (contract.md#q3-failover).
   */
  async function askAll(run: CallingRun): Promise<Found> {
    const { model, endpoint } = run.job;
    const attempted: string[] = [];
    if (run.lane === 'interactive') retryBudget.earn();
    const first = await passOver(run, attempted);
    if (first.outcome !== 'failed') return first;
    if (attempted.length === 0) return { outcome: 'exhausted', attempted: slots.namesOf(model) };
    if (!mayTryAgain(run)) return { outcome: 'exhausted', attempted };
    metrics.retryRounds.inc({ model, endpoint });
    await sleep(random() * roundPauseMs, undefined, { signal: run.signal }).catch(() => {}); // passOver checks the signal
    const second = await passOver(run, attempted);
    return second.outcome === 'failed' ? { outcome: 'exhausted', attempted } : second;
  }

  return async function findAnswer(run) {
    const found = await askAll(run);
    return found.outcome === 'exhausted' || found.outcome === 'late' ? ((await estimated(run)) ?? found) : found;
  };

  function mayTryAgain({ job, lane, leftMs }: CallingRun): boolean {
    // An answer without a backend is better than a second round.
    if (endpointAt(job.endpoint).answer.estimate !== undefined) return false;
    if (lane === 'batch' || slots.allRefuse(job.model) || leftMs() < roundPauseMs + deps.firstTokenMs()) return false;
    return retryBudget.spend();
  }

  /** A stream can move on to the next backend until its first token, and a whole answer until its end. */
  async function passOver(run: CallingRun, attempted: string[]): Promise<Passed> {
    const { signal } = run;
    const tried = new Set<string>();
    while (true) {
      const taken = await takeSlot(run, tried);
      if (signal.aborted) {
        if (taken.outcome === 'slot') taken.slot.end('abandoned');
        return { outcome: 'stopped' };
      }
      // If some have failed and no other has room in time, none could answer.
      if (taken.outcome === 'refused' || (taken.outcome !== 'slot' && attempted.length > 0))
        return { outcome: 'failed' };
      if (taken.outcome !== 'slot') return { outcome: taken.outcome };
      const { slot } = taken;
      tried.add(slot.name);
      if (!attempted.includes(slot.name)) attempted.push(slot.name);
      const attempt = await tryBackend(run, slot);
      const { received, produced } = attempt;
      if (attempt.outcome !== 'failed') return attempt;
      if (signal.aborted) return { outcome: 'stopped', received, produced };
      if (attempt.error.outcome === 'refused_request') return { outcome: 'refused', message: attempt.error.message };
      if (received !== undefined) return { outcome: 'interrupted', received };
      // Another backend would answer with as much.
      if (attempt.error.outcome === 'too_large') return { outcome: 'too_large', produced };
    }
  }

  async function takeSlot(run: CallingRun, tried: ReadonlySet<string>): Promise<SlotAnswer> {
    const { job, lane, signal } = run;
    const reserved = run.reservation?.use();
    if (reserved !== undefined) return { outcome: 'slot', slot: reserved };
    return slots.take({ model: job.model, lane, tried, waitMs: run.mayWaitMs(), signal });
  }
}

/** The answer without a backend, if the endpoint has one. */
async function estimated({ job }: CallingRun): Promise<Found | undefined> {
  const { estimate } = endpointAt(job.endpoint).answer;
  if (estimate === undefined) return undefined;
  return { outcome: 'answered', answer: { body: estimate(await countPromptTokens(job)), usage: noTokens } };
}
