import { z } from 'zod';

const reasonText = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,500}$/u;

/** Why an operator does something, for the audit trail. */
export const reason = z
  .string()
  .regex(reasonText, 'expected 1 to 500 characters, no control characters')
  .optional()
  .meta({ description: 'The reason, for the audit trail.' });

/** The body of an action, or the query of one that has no body. */
export const reasonOnly = z.strictObject({ reason });
