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

/** How many items a list is to have at most, at most so many. */
export function limitParameter(max: number) {
  const message = `expected a whole number from 1 to ${max}`;
  return z
    .string()
    .regex(/^[1-9]\d{0,6}$/, message)
    .transform(Number)
    .refine((limit) => limit <= max, message);
}
