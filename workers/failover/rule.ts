import type { BackendFault } from '../../shared/endpoints/answers/backend-error.ts';
import type { Evidence } from '../backends/evidence.ts';
import type { Outcome } from './outcome.ts';

/**
 * What came back from a backend instead of an answer. `status`: of HTTP, else what an error in a 200 stands for. `hasText`: text came
 * before it.
 */
export type AttemptFailure = {
  fault: BackendFault;
  status?: number | undefined;
  /** Codes and types of its error, in lower case. */
  kinds?: readonly string[];
  words?: string;
  retryAfterMs?: number | undefined;
  wasSent?: boolean;
  hasText?: boolean;
};

/**
 * One row of the tables. All conditions that it has must hold. `kinds`: one of these codes or types. `sentence`: its words; whole, from `^`
 * to `$`, where others than its own request could suffer from what is decided, because a backend may quote the request. `engine`: who says
 * so, with the version in which it was seen.
 */
export type Rule = {
  id: string;
  engine: string;
  outcome: Outcome;
  faults?: readonly BackendFault[];
  statuses?: readonly number[];
  kinds?: readonly string[];
  sentence?: RegExp;
  /** Default: before text only. After text, what is said means that the answer broke off. */
  afterText?: boolean;
  wasSent?: boolean;
  asksToWait?: boolean;
  /** For outcomes that are failures. */
  evidence?: Evidence;
  /** The request may have caused it. It loses two on-prem backends at most (contract.md#ms3-evidence). */
  isLoss?: boolean;
  /** An example, which its test decides. */
  example: AttemptFailure;
};

export function matches(rule: Rule, came: AttemptFailure): boolean {
  const { status, kinds = [], words = '', hasText = false, wasSent = true, retryAfterMs } = came;
  return (
    (rule.faults ?? ['status', 'said']).includes(came.fault) &&
    (rule.statuses === undefined || (status !== undefined && rule.statuses.includes(status))) &&
    (rule.kinds === undefined || rule.kinds.some((kind) => kinds.includes(kind))) &&
    (rule.sentence === undefined || rule.sentence.test(words)) &&
    (rule.afterText ?? false) === hasText &&
    (rule.wasSent === undefined || rule.wasSent === wasSent) &&
    (rule.asksToWait === undefined || rule.asksToWait === (retryAfterMs !== undefined))
  );
}
