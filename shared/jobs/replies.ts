import { z } from 'zod';
import { carriedErrorSchema } from './carried-error.ts';
import { wholeNumber } from './whole-number.ts';

/** Tokens as the backend reported them, or as counted here if it reported none (`estimated`). */
const usageSchema = z.object({
  promptTokens: z.int().nonnegative(),
  completionTokens: z.int().nonnegative(),
  /** Prompt tokens that the backend had cached. */
  cachedTokens: z.int().nonnegative(),
  estimated: z.boolean(),
});

export type TokenUsage = z.infer<typeof usageSchema>;

/** What a run knows of its answer before the end. Times as in the usage record: milliseconds since the request was admitted. */
export const servedSchema = z.object({
  backend: z.string(),
  queueWaitMs: z.int().nonnegative(),
  firstTokenMs: z.int().nonnegative().nullable(),
});

export type RunProgress = z.infer<typeof servedSchema>;

const envelope = { request: z.string(), run: wholeNumber.pipe(z.int().positive()), sequence: wholeNumber };

const startedSchema = z.object({ control: z.string(), queueMs: z.int().nonnegative() });

/**
 * The replies of a worker to a request, in this order, each with the next sequence number of its run (contract.md#p3-order-and-gaps).
 * `started` comes first, unless the last reply comes before it (control: the stream on which the run can be cancelled; queueMs: how long
 * its job waited, by Redis's clock). Then, for a stream, `chunk` (server-sent events as they go to the client; `tokens`: at least how many
 * tokens the model has written so far). A large complete response comes in `piece`s before its end (one character for each byte; `bytes`:
 * those of the whole body). Then `end` (for a complete response, with its body unless it came in pieces) or `error`. A run that may not
 * start, because text of an earlier run was sent, sends only `interrupted` (`promptTokens`: counted by tokenizer).
 */
const replySchema = z.discriminatedUnion('kind', [
  z.object({ ...envelope, kind: z.literal('started'), data: startedSchema }),
  z.object({ ...envelope, kind: z.literal('chunk'), data: z.string(), tokens: wholeNumber }),
  z.object({ ...envelope, kind: z.literal('piece'), data: z.string(), bytes: wholeNumber }),
  z.object({
    ...envelope,
    kind: z.literal('end'),
    data: z.object({ body: z.string().optional(), usage: usageSchema }),
  }),
  z.object({ ...envelope, kind: z.literal('error'), data: carriedErrorSchema }),
  z.object({ ...envelope, kind: z.literal('interrupted'), data: z.object({ promptTokens: z.int().nonnegative() }) }),
]);

/** `served` is with the first text of a run that called a backend, or else with its last reply. */
export type Reply = z.infer<typeof replySchema> & { served?: RunProgress };

export type ReplyContent = Content<Reply>;

/** Omits the fields from each kind separately: `Omit` on the union would keep only the fields that all kinds have. */
type Content<Each> = Each extends Reply ? Omit<Each, keyof typeof envelope> : never;

/** Returns the reply of these fields, whose `data` is JSON, or undefined if they are no reply. */
export function decodeReply({ data, ...rest }: Readonly<Record<string, string>>): Reply | undefined {
  const parsed = replySchema.safeParse({ ...rest, data: parseJson(data) });
  return parsed.success ? parsed.data : undefined;
}

/** Undefined if the text is not JSON. */
export function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
