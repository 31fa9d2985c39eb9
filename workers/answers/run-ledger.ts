import type { AttemptOutcome } from '../../shared/endpoints/answers/backend-error.ts';
import type { UsageAttempt } from '../../shared/store/usage/usage-record.ts';

/** Records what one run of a job does, for its usage record. Times are milliseconds since the request was admitted. */
export interface RunLedger {
  /** A call of a backend begins. Call the returned function at its end. */
  beginAttempt(backend: string): (outcome: AttemptOutcome) => void;
  /** The first token of the backend that answers. The last call counts. */
  firstToken(): void;
  attempts(): readonly UsageAttempt[];
  timing(): { queueWaitMs: number; firstTokenMs: number | null; durationMs: number };
}

export function createRunLedger({
  run,
  queueWaitMs,
  now = () => performance.now(),
}: {
  run: number;
  queueWaitMs: number;
  now?: () => number;
}): RunLedger {
  const startedAt = now();
  const attempts: UsageAttempt[] = [];
  let firstTokenMs: number | null = null;
  const sinceAdmission = () => queueWaitMs + Math.round(now() - startedAt);

  return {
    beginAttempt(backend) {
      const begunAt = now();
      return (outcome) => {
        attempts.push({ run, backend, outcome, durationMs: Math.round(now() - begunAt) });
      };
    },
    firstToken() {
      firstTokenMs = sinceAdmission();
    },
    attempts: () => attempts,
    timing: () => ({ queueWaitMs, firstTokenMs, durationMs: sinceAdmission() }),
  };
}
