import type { Answer, UsageCounter } from './answer-request.ts';
import type { Decision } from './decide-outcome.ts';

/** What a backend said about a request that is at fault, as its client may see it. `words` are empty if it said nothing readable. */
export type RefusedBy = Pick<Decision, 'status' | 'kinds' | 'param'> & { words: string };

/** The numbers of a prompt that is too long, as far as they are known. */
export type TooLong = Pick<Decision, 'promptTokens' | 'contextTokens'>;

/** `received` and `produced`: as in an attempt. */
export type UsageCounters = { received?: UsageCounter | undefined; produced?: UsageCounter | undefined };

/**
 * The result of asking the backends of a run. `refused`: the request is at fault. `too_long`: it fits into the context of no backend.
 * `exhausted`: no backend answers; `attempted` are those that were tried, in order, and one may be called in `retryAfterMs`. `too_large`:
 * the answer exceeds the limit of its model. `late`: no backend had room in time. `interrupted`: the answer broke off after text was sent.
 * `stopped`: the signal was aborted. `fault`: an error of ours.
 */
export type AnswerOutcome = UsageCounters &
  (
    | { outcome: 'answered'; answer: Answer }
    | { outcome: 'refused'; by: RefusedBy }
    | { outcome: 'too_long'; numbers: TooLong }
    | { outcome: 'exhausted'; attempted: string[]; retryAfterMs: number }
    | { outcome: 'interrupted' | 'late' | 'stopped' | 'too_large' }
    | { outcome: 'fault'; error: unknown }
  );
