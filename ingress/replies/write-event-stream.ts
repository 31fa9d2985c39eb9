import type { ServerResponse } from 'node:http';
import { type Clock, systemClock } from '../../shared/bytes/answer-budget.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { StreamEnding } from '../../shared/endpoints/definition/answer-format.ts';
import { toApiError } from '../../shared/errors.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import type { AppContext } from '../request-state.ts';
import { takeOverFraming } from './chunk-framing.ts';
import type { ExpectedReply } from './expected-reply.ts';
import { cutWhenStuck, stuckMs, writeWithin } from './stuck-client.ts';

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
  reply: Pick<ExpectedReply, 'next'>,
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
    let event = await first;
    for (; event.kind === 'chunk'; event = await reply.next()) {
      ending.follow?.(event.text);
      noteText(ctx);
      silence.broken();
      await writeWithin(ctx.res, frame(event.text));
    }
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
