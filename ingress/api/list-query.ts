import { z } from 'zod';
import { parseFields } from './json-body.ts';

/** Parses query parameters by this schema. Fails with `VALIDATION_ERROR`, which names each invalid or repeated parameter. */
export function parseQuery<Schema extends z.ZodType>(schema: Schema, querystring: string): z.infer<Schema> {
  const parameters = new URLSearchParams(querystring);
  const fields = [...new Set(parameters.keys())].map((name) => {
    const values = parameters.getAll(name);
    return [name, values.length === 1 ? values[0] : values];
  });
  return parseFields(schema, Object.fromEntries(fields));
}

/** The maximum number of items of a list: from 1 to `max`, `usual` by default. */
export function limitParameter({ max, usual }: { max: number; usual: number }) {
  const message = `expected a whole number from 1 to ${max}`;
  return z
    .string()
    .regex(/^[1-9]\d{0,6}$/, message)
    .transform(Number)
    .refine((limit) => limit <= max, message)
    .default(usual)
    .meta({
      description: 'Maximum number of items.',
      documentedAs: z.int().min(1).max(max).default(usual),
    });
}
