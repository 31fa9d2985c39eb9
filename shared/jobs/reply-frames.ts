import { z } from 'zod';
import { decodeReply, parseJson, type Reply, servedSchema } from './replies.ts';

/** The field of a stream entry that holds a frame. */
const frameField = 'frame';
/**
 * A further field of the entry, if replies of the frame have `served`: a list of these, each with the index of its reply. It is not in the
 * frame, because the release before would read no reply of such a frame.
 */
const servedField = 'served';
const servedListSchema = z.array(servedSchema.extend({ at: z.int().nonnegative() }));

/**
 * Encodes several replies as the fields of one stream entry (contract.md#p2-frames). In its text each reply is a line followed by its data:
 * `<kind> <request> <run> <sequence> <about> <length>`, a line feed, and `length` characters (UTF-16 code units). `about` of a `chunk` is
 * its tokens. `about` of an `end` is its usage: prompt, completion and cached tokens, 1 if they are estimated, 1 if the data is the body of
 * a complete response. The data of other kinds is JSON. Texts are not escaped, because they are most of what is sent.
 */
export function encodeFrame(replies: readonly Reply[]): string[] {
  let text = '';
  const served: z.infer<typeof servedListSchema> = [];
  for (const [at, reply] of replies.entries()) {
    const { kind, request, run, sequence } = reply;
    const data = dataOf(reply);
    text += `${kind} ${request} ${run} ${sequence} ${aboutOf(reply)} ${data.length}\n${data}`;
    if (reply.served !== undefined) served.push({ at, ...reply.served });
  }
  return [frameField, text, ...(served.length > 0 ? [servedField, JSON.stringify(served)] : [])];
}

function dataOf(reply: Reply): string {
  if (reply.kind === 'chunk') return reply.data;
  return reply.kind === 'end' ? (reply.data.body ?? '') : JSON.stringify(reply.data);
}

function aboutOf(reply: Reply): string | number {
  if (reply.kind === 'chunk') return reply.tokens;
  if (reply.kind !== 'end') return 0;
  const { promptTokens, completionTokens, cachedTokens, estimated } = reply.data.usage;
  const isWhole = reply.data.body !== undefined;
  return `${promptTokens},${completionTokens},${cachedTokens},${Number(estimated)},${Number(isWhole)}`;
}

/** Decodes the replies in a stream entry: of a frame, those before the first unreadable one; of any other entry, none. */
export function decodeEntry([name, text, nextName, nextText]: readonly string[]): Reply[] {
  const replies = name === frameField && text !== undefined ? decodeFrame(text) : [];
  if (nextName === servedField && nextText !== undefined) addServed(replies, nextText);
  return replies;
}

/** What cannot be read is left out: no reply depends on it. */
function addServed(replies: readonly Reply[], text: string): void {
  const parsed = servedListSchema.safeParse(parseJson(text));
  for (const { at, ...served } of parsed.data ?? []) {
    const reply = replies[at];
    if (reply !== undefined) reply.served = served;
  }
}

function decodeFrame(text: string): Reply[] {
  const replies: Reply[] = [];
  for (let at = 0; at < text.length; ) {
    const dataAt = text.indexOf('\n', at) + 1;
    const head = text.slice(at, Math.max(at, dataAt - 1)).split(' ');
    const length = parseWholeNumber(head[5]);
    if (head.length !== 6 || length === undefined || dataAt + length > text.length) break;
    const reply = replyOf(head, text.slice(dataAt, dataAt + length));
    if (reply === undefined) break;
    replies.push(reply);
    at = dataAt + length;
  }
  return replies;
}

/** Parsed by hand, because nearly all replies are chunks and ends: without a schema, an entry costs the ingress a third. */
function replyOf([kind = '', request = '', ...rest]: readonly string[], data: string): Reply | undefined {
  const [runText = '', sequenceText = '', about = ''] = rest;
  if (kind !== 'chunk' && kind !== 'end') {
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
