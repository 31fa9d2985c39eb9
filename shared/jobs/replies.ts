import { z } from 'zod';
import { ApiError, type ErrorCode, errorCodes } from '../errors.ts';

/** How long the status of a stream waits for its first event (contract.md#d6-held-status). */
export const streamStatusHeldMs = 10_000;

/** A field of at most 15 digits, which a number holds exactly. `z.coerce` would take an empty field for 0. */
export const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

const codes = Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]]; // the keys of a literal table are its codes

/** A failure as a worker sends it to the ingress: without its cause, which is only in the worker's log. */
const carriedErrorSchema = z.object({
  code: z.enum(codes),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()),
  headers: z.record(z.string(), z.string()),
  openAi: z.object({ code: z.string().optional(), param: z.string().optional() }).optional(),
  retryAfterMs: z.number().optional(),
});

type CarriedError = z.infer<typeof carriedErrorSchema>;

export function packError({ code, message, fields, headers, openAi, retryAfterMs }: ApiError): CarriedError {
  const hasOpenAi = Object.keys(openAi).length > 0;
  return {
    code,
    message,
    fields,
    headers,
    ...(hasOpenAi && { openAi }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

export function unpackError({ code, message, fields, headers, openAi = {}, retryAfterMs }: CarriedError): ApiError {
  const known = {
    ...(openAi.code !== undefined && { code: openAi.code }),
    ...(openAi.param !== undefined && { param: openAi.param }),
  };
  const waits = retryAfterMs !== undefined && { retryAfterMs };
  return new ApiError(code, message, { fields, headers, openAi: known, ...waits });
}

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
const servedSchema = z.object({
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
function decodeReply({ data, ...rest }: Readonly<Record<string, string>>): Reply | undefined {
  const parsed = replySchema.safeParse({ ...rest, data: parseJson(data) });
  return parsed.success ? parsed.data : undefined;
}

/** Undefined if the text is not JSON. */
function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The field of a stream entry that holds a frame. */
const frameField = 'frame';

/**
 * Encodes several replies as the fields of one stream entry (contract.md#p2-frames). In its text each reply is a line followed by its data:
 * `<kind> <request> <run> <sequence> <about> <length>`, a line feed, and `length` characters (UTF-16 code units). `about` of a `chunk` is
 * its tokens, and of a `piece` the bytes of the whole body. `about` of an `end` is its usage: prompt, completion and cached tokens, 1 if
 * they are estimated, 1 if the data is the body of a complete response. The data of other kinds is JSON. What a reply has as `served` comes
 * before it, as a line of the kind `served` with JSON. Texts are not escaped, because they are most of what is sent.
 */
export function encodeFrame(replies: readonly Reply[]): string[] {
  let text = '';
  for (const reply of replies) {
    const { kind, request, run, sequence, served } = reply;
    const add = (name: string, about: string | number, data: string) => {
      text += `${name} ${request} ${run} ${sequence} ${about} ${data.length}\n${data}`;
    };
    if (served !== undefined) add('served', 0, JSON.stringify(served));
    add(kind, aboutOf(reply), dataOf(reply));
  }
  return [frameField, text];
}

function dataOf(reply: Reply): string {
  if (reply.kind === 'chunk' || reply.kind === 'piece') return reply.data;
  return reply.kind === 'end' ? (reply.data.body ?? '') : JSON.stringify(reply.data);
}

function aboutOf(reply: Reply): string | number {
  if (reply.kind === 'chunk') return reply.tokens;
  if (reply.kind === 'piece') return reply.bytes;
  if (reply.kind !== 'end') return 0;
  const { promptTokens, completionTokens, cachedTokens, estimated } = reply.data.usage;
  const isWhole = reply.data.body !== undefined;
  return `${promptTokens},${completionTokens},${cachedTokens},${Number(estimated)},${Number(isWhole)}`;
}

/** Decodes the replies in a stream entry: of a frame, those before the first unreadable one; of any other entry, none. */
export function decodeEntry([name, text]: readonly string[]): Reply[] {
  return name === frameField && text !== undefined ? decodeFrame(text) : [];
}

function decodeFrame(text: string): Reply[] {
  const replies: Reply[] = [];
  let served: RunProgress | undefined;
  for (let at = 0; at < text.length; ) {
    const dataAt = text.indexOf('\n', at) + 1;
    const head = text.slice(at, Math.max(at, dataAt - 1)).split(' ');
    const length = parseWholeNumber(head[5]);
    if (head.length !== 6 || length === undefined || dataAt + length > text.length) break;
    const data = text.slice(dataAt, dataAt + length);
    at = dataAt + length;
    if (head[0] === 'served') {
      served = servedSchema.safeParse(parseJson(data)).data; // if it cannot be read, it is left out: no reply depends on it
      continue;
    }
    const reply = replyOf(head, data);
    if (reply === undefined) break;
    replies.push(served === undefined ? reply : { ...reply, served });
    served = undefined;
  }
  return replies;
}

/** Parsed by hand, because nearly all replies are chunks and ends: without a schema, an entry costs the ingress a third. */
function replyOf([kind = '', request = '', ...rest]: readonly string[], data: string): Reply | undefined {
  const [runText = '', sequenceText = '', about = ''] = rest;
  if (kind !== 'chunk' && kind !== 'piece' && kind !== 'end') {
    return decodeReply({ kind, request, run: runText, sequence: sequenceText, data });
  }
  const [run, sequence] = [parseWholeNumber(runText), parseWholeNumber(sequenceText)];
  if (request === '' || run === undefined || run === 0 || sequence === undefined) return undefined;
  const numbers = about.split(',').map(parseWholeNumber);
  if (!areKnown(numbers)) return undefined;
  if (kind === 'chunk') {
    const [tokens] = numbers;
    return tokens === undefined ? undefined : { request, run, sequence, kind, data, tokens };
  }
  if (kind === 'piece') {
    const [bytes] = numbers;
    return bytes === undefined ? undefined : { request, run, sequence, kind, data, bytes };
  }
  const [promptTokens, completionTokens, cachedTokens, estimated, whole] = numbers;
  if (promptTokens === undefined || completionTokens === undefined || cachedTokens === undefined) return undefined;
  const usage = { promptTokens, completionTokens, cachedTokens, estimated: estimated === 1 };
  return { request, run, sequence, kind, data: { usage, ...(whole === 1 && { body: data }) } };
}

function areKnown(numbers: readonly (number | undefined)[]): numbers is readonly number[] {
  return !numbers.includes(undefined);
}

/** At most 15 digits, which a number holds exactly. */
function parseWholeNumber(text: string | undefined): number | undefined {
  if (text === undefined || text === '' || text.length > 15) return undefined;
  const number = Number(text);
  return Number.isInteger(number) && number >= 0 ? number : undefined;
}
