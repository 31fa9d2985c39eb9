import { z } from 'zod';

/** A field of at most 15 digits, which a number holds exactly. `z.coerce` would take an empty field for 0. */
export const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);
