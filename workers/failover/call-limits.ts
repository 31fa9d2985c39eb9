import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { Backend } from '../../shared/plan-file/plan-file.ts';
import { type CallLimit, otherLimitField } from '../backend-client/body-for.ts';
import type { Slot } from '../backends/reservation.ts';
import { hasOnePrompt } from './asked-backends.ts';
import { type Decision, decideOutcome } from './decide-outcome.ts';

type LimitedCall<Result> = {
  job: QueuedCall;
  slot: Pick<Slot, 'name' | 'backend'>;
  signal: AbortSignal;
  call: (limit: CallLimit) => Promise<Result>;
  hasText: () => boolean;
};

type Refusal = {
  sent: CallLimit;
  decision: Pick<Decision, 'outcome' | 'limitField' | 'contextTokens' | 'promptTokens'>;
};

/** With less left by our estimate, the backend says how much it is. */
const leftTokensMin = 256;

/** The output limits that backends get (contract.md#ms7-output-limit). */
export function createCallLimits({
  contextOf,
}: {
  /** The context of a backend in tokens, if it is known. */
  contextOf: (backend: string) => number | undefined;
}) {
  /** The field that a backend accepts for a model, if it has refused the other. */
  const accepted = new WeakMap<Backend, Map<string, string>>();

  function remember(backend: Backend, model: string, field: string): void {
    const ofBackend = accepted.get(backend) ?? new Map<string, string>();
    ofBackend.set(model, field);
    accepted.set(backend, ofBackend);
  }

  function first(job: QueuedCall, { name, backend }: Pick<Slot, 'name' | 'backend'>): CallLimit {
    const field = accepted.get(backend)?.get(job.model);
    const left = (contextOf(name) ?? Number.POSITIVE_INFINITY) - job.promptEstimate;
    const isOurs = job.limitFields.length === 0 && hasOnePrompt(job);
    const isLess = isOurs && left >= leftTokensMin && left < job.outputTokensMax;
    return { ...(field !== undefined && { field }), ...(isLess && { tokens: left }) };
  }

  /** Undefined if no other limit could help. */
  function next(
    job: QueuedCall,
    { backend }: Pick<Slot, 'backend'>,
    { sent, decision }: Refusal,
  ): CallLimit | undefined {
    const { outcome, limitField, contextTokens, promptTokens } = decision;
    if (limitField !== undefined) {
      const field = otherLimitField(job, limitField);
      if (field === undefined || field === sent.field) return undefined;
      remember(backend, job.model, field);
      return { ...sent, field };
    }
    const isOurs = outcome === 'too_long' && job.limitFields.length === 0;
    if (!isOurs || contextTokens === undefined || promptTokens === undefined) return undefined;
    const left = contextTokens - promptTokens;
    return left >= 1 && left < (sent.tokens ?? job.outputTokensMax) ? { ...sent, tokens: left } : undefined;
  }

  return {
    /** Calls a backend, and once more with another limit if that may help. */
    async ask<Result>({ job, slot, signal, call, hasText }: LimitedCall<Result>): Promise<Result> {
      const sent = first(job, slot);
      try {
        return await call(sent);
      } catch (error) {
        if (!(error instanceof BackendError) || error.said === undefined || signal.aborted) throw error;
        const again = next(job, slot, { sent, decision: decideOutcome(error, { hasText: hasText() }) });
        if (again === undefined) throw error;
        return call(again);
      }
    },
  };
}

export type CallLimits = ReturnType<typeof createCallLimits>;
