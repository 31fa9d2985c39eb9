import { z } from 'zod';

/** MongoDB stores dates as dates; SQLite stores documents as JSON, with dates as text. */
export const storedDate = z.date().or(z.iso.datetime().transform((text) => new Date(text)));
