import { toApiError } from '../../shared/errors.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import type { AppContext } from '../request-state.ts';
import type { ExpectedReply } from './expected-reply.ts';
import type { ReplyEvent } from './reply-buffer.ts';
import { cutWhenStuck, stuckMs, writeWithin } from './stuck-client.ts';

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
