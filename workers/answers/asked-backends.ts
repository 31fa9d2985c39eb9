import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { BackendSlots } from '../backends/backend-slots.ts';
import type { Ask } from '../backends/candidates.ts';
import type { Slot } from '../backends/reservation.ts';
import type { Decision } from '../outcomes/decide-outcome.ts';
import { treatments } from '../outcomes/outcome.ts';
import type { Found, TooLong } from './found.ts';
import type { CallingRun } from './run.ts';

/** What a request has learned from the backends that it has asked. */
export interface AskedBackends {
  readonly attempted: string[];
  begin(backend: string): void;
  /** Notes a call without an answer. `wait`: the same backend may be asked again, after its pause. */
  note(slot: Pick<Slot, 'name' | 'backend'>, decision: Decision): 'ask others' | 'wait';
  /** Which backends may still be asked. */
  limits(): Pick<Ask, 'only' | 'promptTokensMin'>;
  /** False if the request has lost as many backends as it may. */
  mayAskMore(): boolean;
  /** Whether a second round could end otherwise. */
  mayHelpToTryAgain(): boolean;
  /** The result if no other backend may be asked. */
  result(run: Pick<CallingRun, 'lane'>): Found;
}

/** A request that backends cannot digest takes no more of them than this, and then one in a cloud (contract.md#ms3-evidence). */
const onPremLossesMax = 2;
/** Estimates are rough, and media can be a tenth of theirs: only a prompt that is this much longer is certainly too long. */
const estimateFactorMax = 8;
const retryAfter = { msMin: 1_000, msMax: 60_000 };

type Deps = {
  slots: Pick<BackendSlots, 'namesOf' | 'called' | 'contextMax' | 'callableInMs'>;
  job: Pick<QueuedCall, 'model' | 'promptEstimate' | 'earlierRuns'>;
};

export function createAskedBackends({ slots, job }: Deps): AskedBackends {
  const attempted: string[] = [];
  const lost = { onPrem: 0, cloud: 0 };
  const notOffered = new Map<string, Decision>();
  let promptTokensMin = Math.floor(job.promptEstimate / estimateFactorMax);
  let tooLong: TooLong | undefined;
  let hasFailed = false;
  let isBusy = false;

  for (const { backend, isLoss } of job.earlierRuns.flatMap(({ attempts }) => attempts)) {
    if (isLoss && backend !== undefined) lose(slots.called().get(backend)?.location ?? 'on-prem');
  }

  function lose(location: 'on-prem' | 'cloud'): void {
    lost[location === 'cloud' ? 'cloud' : 'onPrem']++;
  }

  /** If a backend with the room for it has failed, a retry may succeed. */
  function isTooLong(): boolean {
    return !hasFailed && !isBusy && (tooLong !== undefined || promptTokensMin >= slots.contextMax(job.model));
  }

  /** What all backends that were asked do not implement is the client's mistake. */
  function unimplemented(): Decision | undefined {
    const all = attempted.map((name) => notOffered.get(name));
    return all.every((decision) => decision?.status === 501) ? all[0] : undefined;
  }

  return {
    attempted,
    begin(backend) {
      if (!attempted.includes(backend)) attempted.push(backend);
    },
    note({ name, backend }, decision) {
      const { outcome, contextTokens } = decision;
      if (treatments[outcome].waits) {
        isBusy = true;
        return 'wait';
      }
      if (outcome === 'too_long') {
        const largest = Math.max(contextTokens ?? 0, tooLong?.contextTokens ?? 0);
        const promptTokens = decision.promptTokens ?? tooLong?.promptTokens;
        tooLong = { promptTokens, contextTokens: largest > 0 ? largest : undefined };
        promptTokensMin = Math.max(promptTokensMin, contextTokens ?? 0);
      } else if (outcome === 'not_offered') notOffered.set(name, decision);
      else hasFailed = true;
      if (decision.isLoss) lose(backend.location);
      return 'ask others';
    },
    limits: () => ({ only: lost.onPrem >= onPremLossesMax ? 'cloud' : undefined, promptTokensMin }),
    mayAskMore: () => lost.onPrem < onPremLossesMax || lost.cloud === 0,
    mayHelpToTryAgain: () => hasFailed && lost.onPrem < onPremLossesMax,
    result({ lane }) {
      if (isTooLong()) {
        const contextMax = slots.contextMax(job.model);
        const known = Number.isFinite(contextMax) ? contextMax : undefined;
        return { outcome: 'too_long', numbers: { contextTokens: known, ...tooLong } };
      }
      const refusal = unimplemented();
      if (refusal !== undefined) return { outcome: 'refused', by: refusal };
      // A line that found all backends busy is not to blame: it comes again later.
      if (lane === 'batch' && isBusy && !hasFailed) return { outcome: 'late' };
      const callableInMs = slots.callableInMs(job.model);
      const retryAfterMs = Math.min(Math.max(Math.ceil(callableInMs), retryAfter.msMin), retryAfter.msMax);
      const names = attempted.length > 0 ? attempted : slots.namesOf(job.model);
      return { outcome: 'exhausted', attempted: names, retryAfterMs };
    },
  };
}
