import { z } from 'zod';
import { parseFields } from '../listener/json-body.ts';

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

type Page<Item, Shown> = {
  /** Up to `limit` items, and one more if there are more. */
  found: readonly Item[];
  limit: number;
  present: (item: Item) => Shown;
};

/** OpenAI's list object with the first `limit` items. */
export function presentList<Item, Shown extends { id: string }>({ found, limit, present }: Page<Item, Shown>) {
  const data = found.slice(0, limit).map(present);
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: 'list' as const, data, first_id, last_id, has_more: found.length > limit };
}

/** The schema of such a list. */
export function listOf<Item extends z.ZodType>(item: Item) {
  return z.strictObject({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  });
}

/** An example of such a list, with one item. */
export function exampleList<Item extends { id: string }>(item: Item) {
  return { object: 'list', data: [item], first_id: item.id, last_id: item.id, has_more: false };
}
