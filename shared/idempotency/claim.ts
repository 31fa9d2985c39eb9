/**
 * A request with an idempotency key, as its client sent it, and the marks of its body, one for each pepper in use. A body is the same if any
 * of them is the stored one; a new claim stores the first.
 */
export type Claim = { idempotencyKey: string; bodyMarks: readonly [string, ...string[]] };

/** How a claim ends with its request: a repeat gets this answer, it is refused because the answer is lost, or it runs. */
export type ClaimEnd = { end: 'kept'; answer: Buffer } | { end: 'lost' } | { end: 'free' };

/** How long a repeat gets the answer, from the end of the request on. */
export const answerKeptMs = 600_000;
