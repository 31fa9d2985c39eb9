import { decodeReply, parseJson, type Reply, type RunProgress, servedSchema } from './replies.ts';

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
