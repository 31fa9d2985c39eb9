import type { BackendFault } from '../../shared/endpoints/answers/backend-error.ts';
import type { Evidence } from '../backends/evidence.ts';

/**
 * What an attempt at a backend comes to (contract.md#ms-model-servers). `refused`: the request is at fault. `too_long`: it does not fit
 * into the context. `busy`, `loading` and `not_offered`: the backend is well, and does not serve this request now or at all. `failed`: it
 * gave no answer. `interrupted`: it broke off.
 */
export type Outcome =
  | 'answered'
  | 'refused'
  | 'too_long'
  | 'busy'
  | 'loading'
  | 'not_offered'
  | 'failed'
  | 'interrupted';

/**
 * The outcome of an attempt in metrics and records: also the ends that are ours. `over_limit`: it answered, and exceeded the output limit.
 * `too_large`: its answer exceeds the limit of one answer. `stopped`: the call was given up. `fault`: an internal error.
 */
export type AttemptOutcome = Outcome | 'over_limit' | 'too_large' | 'stopped' | 'fault';

/**
 * What follows from an outcome, until text of the answer has reached the client. `next`: which backends are asked next. `breaker`: whether
 * the attempt counts there. `pause`: for how long no worker calls the backend. `waits`: if no other is left, the request waits for it.
 */
export type Treatment = {
  next: 'none' | 'any' | 'with a larger context';
  breaker: 'success' | 'alive' | 'by evidence';
  pause: 'none' | 'as it asks, or longer each time' | 'a second';
  waits: boolean;
  /** What the client gets if no backend is left. */
  client: 'the answer' | 'its words, as 400' | 'too long, as 400' | 'exhausted';
};

const answered = { next: 'none', breaker: 'success', pause: 'none', waits: false } as const;
const unavailable = { next: 'any', breaker: 'alive', pause: 'none', waits: false, client: 'exhausted' } as const;
const failure = { ...unavailable, breaker: 'by evidence' } as const;

/** The only place that says what an outcome does. */
export const treatments: Readonly<Record<Outcome, Treatment>> = {
  answered: { ...answered, client: 'the answer' },
  refused: { ...answered, client: 'its words, as 400' },
  too_long: { ...answered, next: 'with a larger context', client: 'too long, as 400' },
  busy: { ...unavailable, pause: 'as it asks, or longer each time', waits: true },
  loading: { ...unavailable, pause: 'a second', waits: true },
  not_offered: unavailable,
  failed: failure,
  interrupted: failure,
};

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
