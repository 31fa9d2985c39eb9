import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { StreamEnding } from '../../shared/endpoints/definition/answer-format.ts';
import { toApiError } from '../../shared/errors.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { type Clock, systemClock } from '../../shared/process/answer-budget.ts';
import type { AppContext } from '../request-state.ts';
import type { ReplyEvent } from './reply-buffer.ts';
import type { ExpectedReply } from './waiting-request.ts';

const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform', // a proxy that compresses would hold back events
  // A proxy that buffers the response would undo the streaming. nginx obeys this header.
  'x-accel-buffering': 'no',
};

/** `headers` are added to those of every stream. */
type StreamOptions = {
  heldBackMs: number;
  ending: StreamEnding;
  headers?: Readonly<Record<string, string>>;
  clock?: Clock;
};

/**
 * A comment is not an event (HTML, "Server-sent events" 9.2.6), but keeps proxies and clients from timing out. With an empty line after it,
 * openai-go up to 3.42 takes it for an event.
 */
const waitingComment = ': waiting\n';
/** Proxies end connections that are silent for 30 to 60 s. */
const silenceMs = 15_000;

/**
 * Writes a reply as server-sent events, and returns its usage if it is complete. Nothing is sent before the first event, so an early
 * failure is thrown and gets its own status, which SDKs obey (contract.md#d6-held-status). After `heldBackMs` without an event the stream
 * begins anyway, with a comment. One more follows whenever it was silent for 15 s (contract.md#ms8-signs-of-life). A stream that has begun
 * ends in the form of its endpoint, so that a client can always tell a complete answer from an incomplete one
 * (contract.md#d4-broken-streams).
 */
export async function writeEventStream(
  ctx: AppContext,
  reply: Pick<ExpectedReply, 'next' | 'writeTextWith'>,
  { heldBackMs, ending, headers = {}, clock = systemClock }: StreamOptions,
): Promise<TokenUsage | undefined> {
  const first = reply.next();
  const isThere = await within(heldBackMs, first);
  ctx.respond = false;
  ctx.res.writeHead(200, { ...streamHeaders, ...headers });
  const { frame, last } = takeOverFraming(ctx.res);
  const silence = watchSilence(clock, () => comment(ctx.res, frame(waitingComment)));
  try {
    if (!isThere) comment(ctx.res, frame(waitingComment));
    const framed = (text: string) => {
      ending.follow?.(text);
      noteText(ctx);
      silence.broken();
      return frame(text);
    };
    let event = await first;
    reply.writeTextWith((text) => writeNow(ctx.res, () => framed(text)));
    for (; event.kind === 'chunk'; event = await reply.next()) await writeWithin(ctx.res, framed(event.text));
    if (event.kind !== 'end') throw new Error('a piece of a body arrived in a stream');
    end(ctx.res, frame(ending.complete()) + last);
    return event.usage;
  } catch (error) {
    const failure = toApiError(error);
    ctx.state.errorCode = failure.code;
    end(ctx.res, frame(ending.broken(failure, ctx.state.requestId)) + last);
    return undefined;
  } finally {
    silence.end();
  }
}

/** Writes to the connection of a response, whose head was sent. Returns false if it has to take what was written before. */
function writeNow({ socket }: ServerResponse, text: () => string): boolean {
  if (socket === null || !socket.writable || socket.writableNeedDrain) return false;
  socket.write(text());
  return true;
}

/** A client that has not read what was sent before needs no comment. */
function comment(response: ServerResponse, text: string): void {
  if (!response.destroyed && !response.writableNeedDrain) response.write(text);
}

/** Calls this each time that nothing was sent for as long. One timer serves all texts of a stream. */
function watchSilence({ now, after }: Clock, onSilence: () => void) {
  let sentAt = now();
  let cancel = after(silenceMs, look);
  function look(): void {
    if (now() - sentAt >= silenceMs) {
      sentAt = now();
      onSilence();
    }
    cancel = after(silenceMs - (now() - sentAt), look);
  }
  return {
    broken(): void {
      sentAt = now();
    },
    end: () => cancel(),
  };
}

function noteText({ state }: AppContext): void {
  const at = performance.now();
  if (state.streamed === undefined) {
    state.streamed = { firstTextAt: at, lastTextAt: at };
    state.span?.event('first text');
  } else state.streamed.lastTextAt = at;
}

function end(response: ServerResponse, text: string): void {
  if (response.destroyed) return;
  cutWhenStuck(response, stuckMs);
  response.end(text);
}

/** A client that takes this much within the time after which it counts as stuck is not disconnected. */
const sliceBytes = 65_536;

/**
 * Writes a body that comes in pieces, and returns its usage if it is complete. If it breaks off, the connection is closed before all bytes
 * that its head has announced: so it cannot look complete (contract.md#p8-pieces).
 */
export async function writePieces(
  ctx: AppContext,
  reply: Pick<ExpectedReply, 'next' | 'taken'>,
  first: Extract<ReplyEvent, { kind: 'piece' }>,
): Promise<TokenUsage | undefined> {
  const { res } = ctx;
  ctx.respond = false;
  res.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': first.length });
  try {
    let event: ReplyEvent = first;
    for (; event.kind === 'piece'; event = await reply.next()) {
      for (let at = 0; at < event.bytes.length; at += sliceBytes)
        await writeWithin(res, event.bytes.subarray(at, at + sliceBytes));
      reply.taken(event.bytes.length, event.length);
    }
    if (event.kind !== 'end') throw new Error('text arrived in place of a piece');
    cutWhenStuck(res, stuckMs);
    res.end();
    return event.usage;
  } catch (error) {
    ctx.state.errorCode = toApiError(error).code;
    res.destroy();
    return undefined;
  }
}

/** Frames one chunk; `last` is written at the end of the body. */
type Framing = { frame: (text: string) => string; last: string };

const none: Framing = { frame: (text) => text, last: '' };
const chunked: Framing = {
  // An empty chunk would end the body.
  frame: (text) => (text === '' ? '' : `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`),
  last: '0\r\n\r\n',
};

/**
 * Takes over from Node the framing of the chunks of a response (RFC 9112 7.1). Node writes each chunk in four pieces. As one string, a
 * token costs the ingress 11 to 21 % less from its frame to the socket. Call this between `writeHead` and the first write. A client of
 * HTTP/1.0 gets no chunks.
 */
export function takeOverFraming(response: ServerResponse): Framing {
  if (!response.chunkedEncoding) return none;
  response.chunkedEncoding = false;
  return chunked;
}

/** A client that reads nothing for this long counts as disconnected, even if its connection is open. */
export const stuckMs = 30_000;

/**
 * Closes the connection of a response if its client reads nothing for this long. Call it before the last part is written. A client that
 * reads slowly gets everything, because Node restarts the timer whenever the system has taken a part.
 */
export function cutWhenStuck(response: ServerResponse, ms: number): void {
  response.setTimeout(ms);
  // Before Node's own listener, which sets the time-out of an idle connection. None is set if a pipelined request follows.
  response.prependOnceListener('finish', () => response.socket?.setTimeout(0));
}

/**
 * Waits while the client reads more slowly than we write, and disconnects it if it is stuck. Further events are buffered, within their
 * bound.
 */
async function writeWithin(response: ServerResponse, part: string | Buffer): Promise<void> {
  if (response.destroyed || response.write(part)) return;
  const gone = new AbortController();
  const onClose = () => gone.abort();
  response.once('close', onClose);
  const stuck = setTimeout(() => response.destroy(), stuckMs);
  try {
    await once(response, 'drain', { signal: gone.signal });
  } finally {
    clearTimeout(stuck);
    response.off('close', onClose);
  }
}
