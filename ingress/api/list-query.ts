import { z } from 'zod';
import { parseFields } from './json-body.ts';

/** The parameters of a query as this schema has them; `VALIDATION_ERROR` naming each that does not fit, or came twice. */
export function parseQuery<Schema extends z.ZodType>(schema: Schema, querystring: string): z.infer<Schema> {
  const parameters = new URLSearchParams(querystring);
  const fields = [...new Set(parameters.keys())].map((name) => {
    const values = parameters.getAll(name);
    return [name, values.length === 1 ? values[0] : values];
  });
  return parseFields(schema, Object.fromEntries(fields));
}

/** How many items a list is to have at most, of at most `max`; `usual` where that is left out. */
export function limitParameter({ max, usual }: { max: number; usual: number }) {
  const message = `expected a whole number from 1 to ${max}`;
  return z
    .string()
    .regex(/^[1-9]\d{0,6}$/, message)
    .transform(Number)
    .refine((limit) => limit <= max, message)
    .default(usual)
    .meta({
      description: 'How many the list is to have at most.',
      documentedAs: z.int().min(1).max(max).default(usual),
    });
}
