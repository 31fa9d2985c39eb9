import { z } from 'zod';

/** JSON as text: for a column of text, or for data that must not become fields of the document. */
export const storedJson = z.string().transform((text, context): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue('not JSON');
    return z.NEVER;
  }
});
