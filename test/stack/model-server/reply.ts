import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { oddPieces, withInvalidUtf8 } from './bytes.ts';
import type { Call, CallList } from './calls.ts';
import { type Derailment, derail, pour } from './derail.ts';
import { type ErrorForm, type ModelAnswer, type StreamEvent, textOf } from './endpoint.ts';
import type { Fault } from './faults.ts';

/** A call that is being answered. `signal` aborts when the client leaves, which ends every wait in here. */
export interface ReplyStart {
  readonly res: ServerResponse;
  readonly calls: CallList;
  readonly call: Call;
  readonly fault: Fault;
  readonly pace: { readonly firstTokenMs: number; readonly tokenMs: number; readonly tokensPerWrite: number };
  readonly splitBytes: boolean;
  readonly signal: AbortSignal;
  readonly errors: ErrorForm;
}

/** One reply that is being sent. */
export interface Reply extends ReplyStart {
  readonly answered: ModelAnswer;
}

/** The most bytes to gather before a write: enough to make one packet of a complete fast stream. */
const gatheredBytesMax = 16_384;

/**
 * A reset drops data that was not sent yet, and a client may drop data that arrives with unreadable bytes. This pause is long enough, on
 * this machine, for the client to receive the data first.
 */
const beforeBreakMs = 20;

export const streamHeaders = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

/** Sends a whole JSON reply, at the pace of a stream and with the given fault. */
export async function writeWhole(reply: Reply): Promise<void> {
  const { res, calls, call, fault, pace, signal, answered } = reply;
  const { completionTokens, form } = answered;
  await wait(pace.firstTokenMs + pace.tokenMs * completionTokens, signal);
  if (fault.endless) return writeWithoutEnd(reply);
  const written = answered.written?.() ?? [Buffer.from(answered.whole())];
  const pieces = fault.invalidUtf8 ? [withInvalidUtf8(answered.whole(), form.textOpenings)] : written;
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
  const length = fault.derails === undefined ? { 'content-length': bytes } : {};
  res.writeHead(200, { 'content-type': 'application/json', ...length });
  const point = breakingPoint(fault);
  if (point !== undefined) {
    res.write(Buffer.concat(pieces).subarray(0, bytes / 2));
    return breakOff(reply, point.how, 0);
  }
  for (const piece of pieces) res.write(piece);
  res.end();
  calls.change(call, { state: 'completed', chunksSent: 1, completionTokens });
}

/** Sends events at the requested pace and with the given fault. Without a pace they are sent in as few packets as possible. */
export async function writeStream(reply: Reply): Promise<void> {
  const { res, calls, call, fault, pace, signal, answered } = reply;
  const events = answered.events();
  const output = createOutput(reply);
  const point = breakingPoint(fault);
  res.writeHead(200, streamHeaders);
  if (pace.firstTokenMs > 0) res.flushHeaders();
  await wait(pace.firstTokenMs, signal);
  const startedAt = performance.now();
  let tokens = 0;
  let sent = 0;
  for (const event of fault.endless ? withoutEnd(events) : events) {
    if (point !== undefined && isReached(point.after, event, tokens)) {
      await output.flush();
      return breakOff(reply, point.how, sent);
    }
    if (event.kind === 'chunk' && tokens > 0 && tokens % pace.tokensPerWrite === 0 && pace.tokenMs > 0) {
      await output.flush();
      await wait(startedAt + tokens * pace.tokenMs - performance.now(), signal);
    }
    if (event.kind === 'chunk') tokens += 1;
    await output.add(bytesOf(event, sent, reply), tokens);
    sent += 1;
  }
  await output.flush();
  res.end();
  calls.change(call, { state: 'completed' });
}

/**
 * Gathers events until they are flushed or the limit is reached. Counts their tokens in the call first, because a client may leave with
 * the last byte.
 */
function createOutput({ res, calls, call, splitBytes, signal }: Reply) {
  let gathered: Buffer[] = [];
  let length = 0;
  let tokensGathered = 0;
  const flush = async () => {
    if (length === 0) return;
    const bytes = Buffer.concat(gathered, length);
    gathered = [];
    length = 0;
    calls.change(call, { chunksSent: tokensGathered, completionTokens: tokensGathered });
    for (const [index, piece] of (splitBytes ? oddPieces(bytes) : [bytes]).entries()) {
      // Pieces written in one turn of the event loop would arrive as one.
      if (index > 0) await nextTurn(undefined, { signal });
      if (!res.write(piece)) await once(res, 'drain', { signal });
    }
  };
  return {
    flush,
    async add(bytes: Buffer, tokens: number): Promise<void> {
      gathered.push(bytes);
      length += bytes.length;
      tokensGathered = tokens;
      if (length < gatheredBytesMax) return;
      await flush();
      // A client that reads everything at once must not block the others.
      await nextTurn(undefined, { signal });
    },
  };
}

function bytesOf({ kind, text: given }: StreamEvent, sent: number, { fault, answered }: Reply): Buffer {
  const text = textOf(given, sent);
  if (fault.noDone && kind === 'done') return Buffer.alloc(0);
  if (fault.badEvents && kind === 'chunk') return Buffer.from(`${text.slice(0, text.length / 2).trimEnd()}\n\n`);
  return fault.invalidUtf8 ? withInvalidUtf8(text, answered.form.textOpenings) : Buffer.from(text);
}

/** A stream that repeats the same tokens endlessly. */
function* withoutEnd(events: Iterable<StreamEvent>): Generator<StreamEvent> {
  const chunks: StreamEvent[] = [];
  for (const event of events) {
    if (event.kind !== 'open' && event.kind !== 'chunk') break;
    if (event.kind === 'chunk') chunks.push(event);
    yield event;
  }
  while (true) yield* chunks;
}

async function writeWithoutEnd({ res, signal, answered }: Reply): Promise<void> {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.write(answered.form.wholeUpToText);
  await pour(res, 'and so on '.repeat(6_500), signal);
}

interface BreakingPoint {
  readonly how: 'cut' | 'end' | 'stall' | Derailment;
  readonly after: number;
}

function breakingPoint(fault: Fault): BreakingPoint | undefined {
  const { cutAfterChunks, endAfterChunks, stallAfterChunks, derails } = fault;
  const points = [
    ...(derails === undefined ? [] : [{ how: derails.into, after: derails.afterChunks }]),
    { how: 'cut', after: cutAfterChunks },
    { how: 'end', after: endAfterChunks },
    { how: 'stall', after: stallAfterChunks },
  ] as const;
  return points
    .flatMap(({ how, after }) => (after === undefined ? [] : [{ how, after }]))
    .reduce<BreakingPoint | undefined>(
      (first, point) => (first && first.after <= point.after ? first : point),
      undefined,
    );
}

/** A stream with fewer tokens than the fault's number breaks off before it finishes. */
function isReached(after: number, { kind }: StreamEvent, tokens: number): boolean {
  return kind === 'chunk' ? tokens >= after : kind !== 'open' && kind !== 'close';
}

async function breakOff(reply: Reply, how: BreakingPoint['how'], sent: number): Promise<void> {
  const { res, calls, call, signal } = reply;
  if (how === 'stall') return untilAborted(signal);
  await wait(beforeBreakMs, signal);
  if (how !== 'cut' && how !== 'end') return derail(reply, how, sent);
  calls.change(call, { state: 'failed' });
  if (how === 'cut') res.socket?.resetAndDestroy();
  // A whole reply has announced its length, so only the end of the connection can end it early.
  else if (!call.stream) res.socket?.end();
  else res.end();
}

/** The bytes of a complete stream, as one text. */
export function joinEvents(events: Iterable<StreamEvent>): string {
  return Array.from(events, ({ text }, sent) => textOf(text, sent)).join('');
}

/** Waits until `awaited` is aborted. Rejects if `left` is aborted first. */
export async function untilAborted(awaited: AbortSignal, left?: AbortSignal): Promise<void> {
  if (!awaited.aborted) await once(awaited, 'abort', { signal: left });
}

/** Waits, except for 0 ms. Rejects when the client leaves. */
export async function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (milliseconds > 0) await sleep(milliseconds, undefined, { signal });
}
