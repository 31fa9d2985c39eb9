import { z } from 'zod';

/** MongoDB stores dates as dates; SQLite stores documents as JSON, with dates as text. */
export const storedDate = z.date().or(z.iso.datetime().transform((text) => new Date(text)));

/** JSON as text: for a column of text, or for data that must not become fields of the document. */
export const storedJson = z.string().transform((text, context): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue('not JSON');
    return z.NEVER;
  }
});
