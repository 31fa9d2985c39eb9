import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { errorFrame, toApiError } from '../../shared/errors.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { within } from '../../shared/process/shutdown.ts';
import type { AppContext } from '../request-state.ts';
import { takeOverFraming } from './chunk-framing.ts';
import type { ExpectedReply } from './expected-reply.ts';
import { cutWhenStuck, stuckMs } from './stuck-client.ts';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // A proxy that gathers the answer would undo the streaming; nginx obeys this header.
  'x-accel-buffering': 'no',
};

/** A comment is no event (HTML, "Server-sent events" 9.2.6); what stands between here and the client sees a sign of life. */
const waitingComment = ': waiting\n\n';

/**
 * Writes a reply as server-sent events. Nothing is sent before its first event, so that an early failure is thrown and has a
 * status of its own, which SDKs obey; after `heldBackMs` the stream is begun all the same, with a comment, and one more each
 * time it has passed again. A stream that has begun ends by `[DONE]` if all of it was written, else by an error frame
 * and no `[DONE]`: a client can always tell a whole answer from one that broke off. The usage of a whole one.
 */
export async function writeEventStream(
  ctx: AppContext,
  reply: Pick<ExpectedReply, 'next'>,
  { heldBackMs }: { heldBackMs: number },
): Promise<TokenUsage | undefined> {
  const first = reply.next();
  let isThere = await within(heldBackMs, first);
  ctx.respond = false;
  ctx.res.writeHead(200, headers);
  const { frame, last } = takeOverFraming(ctx.res);
  try {
    for (; !isThere; isThere = await within(heldBackMs, first)) await write(ctx.res, frame(waitingComment));
    let event = await first;
    for (; event.kind === 'chunk'; event = await reply.next()) await write(ctx.res, frame(event.text));
    end(ctx.res, frame('data: [DONE]\n\n') + last);
    return event.usage;
  } catch (error) {
    end(ctx.res, frame(`data: ${JSON.stringify(errorFrame(toApiError(error)))}\n\n`) + last);
    return undefined;
  }
}

function end(response: ServerResponse, text: string): void {
  if (response.destroyed) return;
  cutWhenStuck(response, stuckMs);
  response.end(text);
}

/** Waits while the client reads more slowly than we write; what comes meanwhile piles up in the reply's own bound. */
async function write(response: ServerResponse, text: string): Promise<void> {
  if (response.destroyed || response.write(text)) return;
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
