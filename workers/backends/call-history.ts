import { createFleetCounts, type FleetCounts, firstTokenClassOf } from '../../shared/fleet/fleet-counts.ts';
import type { CallFailure } from '../../shared/fleet/note-process.ts';
import type { UsageAttempt } from '../../shared/store/usage/usage-record.ts';
import type { BreakerStatus } from './served-backends.ts';

type ModelBackend = { backend: string; model: string };
type EndedCall = ModelBackend & {
  requestId: string;
  end: Pick<UsageAttempt, 'outcome' | 'cause' | 'address' | 'rule' | 'status'>;
};

/** What operators see of a backend for a model beside its health: since when it fails, and its latest call without an answer. */
export type SeenFailures = { failingSince?: number; lastFailure?: CallFailure };

/** Older failures are not shown. */
const failureKeptMs = 3_600_000;

/** Others, such as a busy backend or a client that has left, are neither. */
const answers: ReadonlySet<string> = new Set(['answered', 'over_limit', 'too_large', 'refused', 'too_long']);
const noAnswers: ReadonlySet<string> = new Set(['failed', 'interrupted', 'not_offered']);

/** Remembers why backends fail, and counts their calls for the fleet. Its size is bounded by the plan file. */
export function createCallHistory({ now = Date.now }: { now?: () => number } = {}) {
  const counts = createFleetCounts();
  const failures = new Map<string, CallFailure>();
  const failingSince = new Map<string, number>();
  const idOf = ({ backend, model }: ModelBackend) => JSON.stringify([backend, model]);

  return {
    counts: counts as Pick<FleetCounts, 'take'>,
    noteFirstToken({ backend, model, ms }: ModelBackend & { ms: number }): void {
      counts.add(['call', backend, model, firstTokenClassOf(ms)]);
    },
    noteEnd({ backend, model, requestId, end }: EndedCall): void {
      if (answers.has(end.outcome)) counts.add(['call', backend, model, 'answered']);
      if (!noAnswers.has(end.outcome)) return;
      counts.add(['call', backend, model, 'failed']);
      const { outcome, cause, address, rule, status } = end;
      failures.set(idOf({ backend, model }), { outcome, cause, address, rule, status, at: now(), requestId });
    },
    noteBreaker({ backend, model, breaker }: BreakerStatus): void {
      const id = idOf({ backend, model });
      if (breaker === 'closed') failingSince.delete(id);
      else if (!failingSince.has(id)) failingSince.set(id, now());
    },
    failuresOf(called: ModelBackend): SeenFailures {
      const [since, last] = [failingSince.get(idOf(called)), failures.get(idOf(called))];
      return {
        ...(since !== undefined && { failingSince: since }),
        ...(last !== undefined && now() - last.at < failureKeptMs && { lastFailure: last }),
      };
    },
    /** Forgets backends and models that are no longer served. */
    keepOnly(served: readonly ModelBackend[]): void {
      const kept = new Set(served.map(idOf));
      for (const known of [failures, failingSince]) for (const id of known.keys()) if (!kept.has(id)) known.delete(id);
    },
  };
}

export type CallHistory = ReturnType<typeof createCallHistory>;
