import { z } from 'zod';

/** JSON as text: for a column of text, or for data that must not become fields of the document. */
export const storedJson = z.string().transform((text): unknown => JSON.parse(text));
