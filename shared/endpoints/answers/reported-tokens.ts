import { z } from 'zod';

/** No request has this many tokens; a larger count is invalid. */
const tokensMax = 1_000_000_000;

/** A count of tokens in a backend's usage. */
export const reportedTokens = z.int().nonnegative().max(tokensMax);
