import { z } from 'zod';

/** MongoDB keeps dates as such; SQLite keeps documents as JSON, where they are text. */
export const storedDate = z.date().or(z.iso.datetime().transform((text) => new Date(text)));
