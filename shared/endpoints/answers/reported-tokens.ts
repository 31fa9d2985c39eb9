import { z } from 'zod';

/** No request has this many tokens; a larger count is invalid. */
const tokensMax = 1_000_000_000;

/** A count of tokens in a backend's usage. */
export const reportedTokens = z.int().nonnegative().max(tokensMax);

/** Returns a count of tokens in a backend's usage. Undefined for any other value. */
export function tokensIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= tokensMax
    ? value
    : undefined;
}
