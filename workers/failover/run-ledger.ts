import type { RunProgress } from '../../shared/jobs/replies.ts';
import type { UsageAttempt } from '../../shared/store/usage/usage-record.ts';
import type { AttemptOutcome } from './outcome.ts';

const waits: ReadonlySet<AttemptOutcome> = new Set(['busy', 'loading']);

export type AttemptEnd = Pick<UsageAttempt, 'rule' | 'status' | 'isLoss'> & { outcome: AttemptOutcome };

/** Records what one run of a job does, for its usage record. Times are milliseconds since the request was admitted. */
export function createRunLedger({
  run,
  queueWaitMs,
  now = () => performance.now(),
}: {
  run: number;
  queueWaitMs: number;
  now?: () => number;
}) {
  const startedAt = now();
  const attempts: UsageAttempt[] = [];
  let firstTokenMs: number | null = null;
  let answerId: string | undefined;
  let latestBackend: string | undefined;
  const sinceAdmission = () => queueWaitMs + Math.round(now() - startedAt);

  return {
    /**
     * A call of a backend begins, with its own name of the model if it has one. Call the returned function at its end. Calls that find a
     * backend busy for the same reason are one attempt.
     */
    beginAttempt(backend: string, model?: string): (end: AttemptEnd) => void {
      const begunAt = now();
      latestBackend = backend;
      return (end) => {
        const durationMs = Math.round(now() - begunAt);
        // A request that waits for a busy backend asks it again and again.
        const known = attempts.find(
          (each) => waits.has(end.outcome) && each.backend === backend && each.rule === end.rule,
        );
        if (known !== undefined) known.durationMs = (known.durationMs ?? 0) + durationMs;
        else attempts.push({ run, backend, ...(model !== undefined && { model }), ...end, durationMs });
      };
    },
    /** The first token of the backend that answers. The last call counts. */
    firstToken(): void {
      firstTokenMs = sinceAdmission();
    },
    /** The backend's id of the answer. The last call counts. */
    answeredAs(id: string | undefined): void {
      answerId = id;
    },
    answerId: (): string | undefined => answerId,
    attempts: (): readonly UsageAttempt[] => attempts,
    /** Undefined before the first call of a backend. */
    served: (): RunProgress | undefined =>
      latestBackend === undefined ? undefined : { backend: latestBackend, queueWaitMs, firstTokenMs },
    timing: (): { queueWaitMs: number; firstTokenMs: number | null; durationMs: number } => ({
      queueWaitMs,
      firstTokenMs,
      durationMs: sinceAdmission(),
    }),
  };
}

export type RunLedger = ReturnType<typeof createRunLedger>;
