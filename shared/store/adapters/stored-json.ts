import { z } from 'zod';

/** Text that is JSON: a column that takes nothing else, or what a document must not have as fields of its own. */
export const storedJson = z.string().transform((text): unknown => JSON.parse(text));
