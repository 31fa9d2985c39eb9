import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { Ask, BackendSlots } from '../backends/backend-slots.ts';
import type { Slot } from '../backends/reservation.ts';
import type { AnswerOutcome, TooLong } from './answer-outcome.ts';
import type { Decision } from './decide-outcome.ts';
import { type Treatment, treatments } from './outcome.ts';
import type { CallingRun } from './run.ts';

/** A request that backends cannot digest takes no more of them than this, and then one in a cloud (contract.md#ms3-evidence). */
const onPremLossesMax = 2;
/** Estimates are rough, and media can be a tenth of theirs: only a prompt that is this much longer is certainly too long. */
const estimateFactorMax = 8;
const retryAfter = { msMin: 1_000, msMax: 60_000 };

type Deps = {
  slots: Pick<BackendSlots, 'namesOf' | 'called' | 'contextOf' | 'callableInMs'>;
  job: Pick<QueuedCall, 'model' | 'promptEstimate' | 'choices' | 'outputTokensMax' | 'earlierRuns'>;
};

/** What a request has learned from the backends that it has asked. */
export function createAskedBackends({ slots, job }: Deps) {
  const attempted: string[] = [];
  const lost = { onPrem: 0, cloud: 0 };
  const decisions = createDecisions(slots, job);

  for (const { backend, isLoss } of job.earlierRuns.flatMap(({ attempts }) => attempts)) {
    if (isLoss && backend !== undefined) lose(slots.called().get(backend)?.location ?? 'on-prem');
  }

  function lose(location: 'on-prem' | 'cloud'): void {
    lost[location === 'cloud' ? 'cloud' : 'onPrem']++;
  }

  return {
    attempted,
    begin(backend: string): void {
      if (!attempted.includes(backend)) attempted.push(backend);
    },
    /** Notes a call without an answer. `wait`: the same backend may be asked again, after its pause. */
    note({ name, backend }: Pick<Slot, 'name' | 'backend'>, decision: Decision): 'ask others' | 'wait' {
      decisions.note(name, decision);
      if (treatments[decision.outcome].waits) return 'wait';
      if (decision.isLoss) lose(backend.location);
      return 'ask others';
    },
    /** Which backends may still be asked. */
    limits: (): Pick<Ask, 'only' | 'promptTokensMin'> => ({
      only: lost.onPrem >= onPremLossesMax ? 'cloud' : undefined,
      promptTokensMin: decisions.promptTokensMin(),
    }),
    /** False if the request has lost as many backends as it may. */
    mayAskMore: (): boolean => lost.onPrem < onPremLossesMax || lost.cloud === 0,
    /** Whether a second round could end otherwise. */
    mayHelpToTryAgain: (): boolean => decisions.hasFailed() && lost.onPrem < onPremLossesMax,
    /** The result if no other backend may be asked. */
    result({ lane }: Pick<CallingRun, 'lane'>): AnswerOutcome {
      if (decisions.areTooLong()) return { outcome: 'too_long', numbers: decisions.numbers() };
      const refusal = decisions.unimplemented();
      if (refusal !== undefined) return { outcome: 'refused', by: refusal };
      // A line that found all backends busy is not to blame: it comes again later.
      if (lane === 'batch' && decisions.isAnyBusy() && !decisions.hasFailed()) return { outcome: 'late' };
      const callableInMs = slots.callableInMs(job.model);
      const retryAfterMs = Math.min(Math.max(Math.ceil(callableInMs), retryAfter.msMin), retryAfter.msMax);
      const names = attempted.length > 0 ? attempted : slots.namesOf(job.model);
      return { outcome: 'exhausted', attempted: names, retryAfterMs };
    },
  };
}

export type AskedBackends = ReturnType<typeof createAskedBackends>;

/** The last decision of each backend that was asked, and what they mean together. */
function createDecisions(slots: Deps['slots'], job: Deps['job']) {
  const decisions = new Map<string, Decision>();
  let promptTokens: number | undefined;
  let contextTokens = 0;
  let promptTokensMin = hasOnePrompt(job) ? Math.floor(job.promptEstimate / estimateFactorMax) : 0;

  function treatmentBy(name: string): Treatment | undefined {
    const outcome = decisions.get(name)?.outcome;
    return outcome && treatments[outcome];
  }

  const some = (isLike: (treatment: Treatment) => boolean) =>
    [...decisions.values()].some(({ outcome }) => isLike(treatments[outcome]));

  function isTooLongFor(name: string): boolean {
    if (treatmentBy(name)?.client === 'too long, as 400') return true;
    return promptTokensMin >= (slots.contextOf(name) ?? Number.POSITIVE_INFINITY);
  }

  return {
    note(name: string, decision: Decision): void {
      decisions.set(name, decision);
      if (treatments[decision.outcome].next !== 'with a larger context') return;
      promptTokens = decision.promptTokens ?? promptTokens;
      contextTokens = Math.max(contextTokens, decision.contextTokens ?? 0);
      promptTokensMin = Math.max(promptTokensMin, contextTokens);
    },
    /** Lower bound of the tokens of the prompt. */
    promptTokensMin: () => promptTokensMin,
    hasFailed: () => some(({ breaker }) => breaker === 'by evidence'),
    isAnyBusy: () => some(({ waits }) => waits),
    /** No backend has room for the prompt. One that is only busy, away or paused may have, so a retry may succeed. */
    areTooLong(): boolean {
      const offering = slots.namesOf(job.model).filter((name) => decisions.get(name)?.outcome !== 'not_offered');
      return offering.length > 0 && offering.every(isTooLongFor);
    },
    /** With the largest context that a backend has named, or is known to have. */
    numbers(): TooLong {
      const known = slots.namesOf(job.model).map((name) => slots.contextOf(name) ?? 0);
      const largest = Math.max(contextTokens, ...known);
      return { promptTokens, contextTokens: largest > 0 ? largest : undefined };
    },
    /** What no backend of the model implements is the client's mistake. */
    unimplemented(): Decision | undefined {
      const all = slots.namesOf(job.model).map((name) => decisions.get(name));
      return all.every((decision) => decision?.status === 501) ? all[0] : undefined;
    },
  };
}

/** An estimate of several prompts says nothing about the longest of them. */
export function hasOnePrompt({ choices, outputTokensMax }: Pick<QueuedCall, 'choices' | 'outputTokensMax'>): boolean {
  return choices === 1 && outputTokensMax > 0;
}
