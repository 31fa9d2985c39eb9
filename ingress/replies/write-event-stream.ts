import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { errorFrame, toApiError } from '../../shared/errors.ts';
import type { Usage } from '../../shared/replies.ts';
import type { AppContext } from '../request-state.ts';
import type { ReplyEvent } from './reply-buffer.ts';
import type { ExpectedReply } from './waiting-requests.ts';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // A proxy that gathers the answer would undo the streaming; nginx obeys this header.
  'x-accel-buffering': 'no',
};

/** A client that takes nothing of what it was sent for this long is gone, whatever its connection says. */
const stuckMs = 30_000;

/**
 * Writes a reply whose first event is there as server-sent events. It ends by `[DONE]` if all of it was written, else by an
 * error frame and no `[DONE]` (API D4): a client can always tell a whole answer from one that broke off. The usage of a
 * whole one.
 */
export async function writeEventStream(
  ctx: AppContext,
  reply: ExpectedReply,
  first: ReplyEvent,
): Promise<Usage | undefined> {
  ctx.respond = false;
  ctx.res.writeHead(200, headers);
  try {
    let event = first;
    for (; event.kind === 'chunk'; event = await reply.next()) await write(ctx.res, event.text);
    ctx.res.end('data: [DONE]\n\n');
    return event.usage;
  } catch (error) {
    if (!ctx.res.destroyed) ctx.res.end(`data: ${JSON.stringify(errorFrame(toApiError(error)))}\n\n`);
    return undefined;
  }
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
