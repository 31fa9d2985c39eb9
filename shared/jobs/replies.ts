import { z } from 'zod';
import { carriedErrorSchema } from '../errors.ts';

/** Tokens as the backend reported them, or counted by us where it reported none (`estimated`). */
const usageSchema = z.object({
  promptTokens: z.int().nonnegative(),
  completionTokens: z.int().nonnegative(),
  /** Of the prompt's, those that the backend had in a cache. */
  cachedTokens: z.int().nonnegative(),
  estimated: z.boolean(),
});

export type TokenUsage = z.infer<typeof usageSchema>;

// `z.coerce` would take an empty field for 0.
const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

const envelope = { request: z.string(), run: wholeNumber.pipe(z.int().positive()), sequence: wholeNumber };

const startedSchema = z.object({ control: z.string(), queueMs: z.int().nonnegative().optional() });

/**
 * What a worker says about a request, in this order, each with the next sequence number of its run:
 * `started` (control: the stream on which the run can be cancelled; queueMs: how long its job waited, by Redis's clock, not said by
 * workers of the release before), unless its last word comes before that; then for a stream
 * `chunk` (server-sent events as they go to the client; `tokens`: how many the model has written up to here, at least), and `end`
 * (whole answers carry their body here) or `error`. A run that may not begin, because text of an earlier one was sent, says
 * `interrupted` and nothing else (`promptTokens`: counted by tokenizer).
 */
const replySchema = z.discriminatedUnion('kind', [
  z.object({ ...envelope, kind: z.literal('started'), data: startedSchema }),
  z.object({ ...envelope, kind: z.literal('chunk'), data: z.string(), tokens: wholeNumber }),
  z.object({
    ...envelope,
    kind: z.literal('end'),
    data: z.object({ body: z.string().optional(), usage: usageSchema }),
  }),
  z.object({ ...envelope, kind: z.literal('error'), data: carriedErrorSchema }),
  z.object({ ...envelope, kind: z.literal('interrupted'), data: z.object({ promptTokens: z.int().nonnegative() }) }),
]);

export type Reply = z.infer<typeof replySchema>;

export type ReplyContent = Content<Reply>;

/** Of each kind by itself: of a union as a whole only what all have would be left. */
type Content<Each> = Each extends Reply ? Omit<Each, keyof typeof envelope> : never;

/** A reply as the fields of a stream entry of its own. */
export function encodeReply({ request, run, sequence, ...content }: Reply): string[] {
  const about = ['request', request, 'run', String(run), 'sequence', String(sequence), 'kind', content.kind];
  if (content.kind === 'chunk') return [...about, 'tokens', String(content.tokens), 'data', content.data];
  return [...about, 'data', JSON.stringify(content.data)];
}

/** The reply in a stream entry, or undefined for anything else that stands in the stream. */
export function decodeReply(fields: Readonly<Record<string, string>>): Reply | undefined {
  const data = fields.kind === 'chunk' ? fields.data : parseJson(fields.data);
  const parsed = replySchema.safeParse({ ...fields, data });
  return parsed.success ? parsed.data : undefined;
}

function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
