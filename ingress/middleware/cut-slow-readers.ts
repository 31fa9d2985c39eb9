import type { ServerResponse } from 'node:http';
import { cutWhenStuck, stuckMs } from '../replies/stuck-client.ts';
import type { Stage } from '../request-state.ts';

type Bounds = {
  /** A client has so long for an answer, and as much more as its bytes take at the least rate. */
  graceMs: number;
  bytesPerSecondMin: number;
  /** Of answers in this process that their clients have not taken yet; past it, those go that have waited longest. */
  heldBytesMax: number;
  /** What an answer may wait for even then. */
  sparedMs: number;
};

const usual: Bounds = { graceMs: 60_000, bytesPerSecondMin: 16_384, heldBytesMax: 67_108_864, sparedMs: 10_000 };

type Unread = { response: ServerResponse; heldBytes: number; since: number };

/**
 * An answer that is larger than the buffers of the system is held in memory until its client has taken it. A client that takes
 * nothing for 30 s, or all of it too slowly, is disconnected; so are the slowest while all such answers together are too large. What
 * came is then shorter than its `Content-Length`, so a client can tell. Event streams have bounds of their own (reply-buffer.ts).
 */
export function cutSlowReaders(wishes: Partial<Bounds> = {}): Stage {
  const { graceMs, bytesPerSecondMin, heldBytesMax, sparedMs } = { ...usual, ...wishes };
  /** Oldest first. */
  const unread = new Set<Unread>();
  let heldBytes = 0;

  function watch(response: ServerResponse): void {
    // An answer to a request that was sent ahead begins to be taken when the one before it has been.
    if (response.socket === null && !response.closed) response.once('socket', () => watch(response));
    if (response.socket === null || response.writableFinished || response.closed) return;
    const one = { response, heldBytes: response.writableLength, since: performance.now() };
    const rest = Math.max(one.heldBytes, Number(response.getHeader('content-length') ?? 0));
    const late = setTimeout(() => response.destroy(), graceMs + (rest / bytesPerSecondMin) * 1_000);
    cutWhenStuck(response, stuckMs);
    unread.add(one);
    heldBytes += one.heldBytes;
    response.once('close', () => {
      clearTimeout(late);
      if (unread.delete(one)) heldBytes -= one.heldBytes;
    });
    makeRoom();
  }

  function makeRoom(): void {
    const sparedSince = performance.now() - sparedMs;
    for (const one of unread) {
      if (heldBytes <= heldBytesMax || one.since > sparedSince) return;
      unread.delete(one);
      heldBytes -= one.heldBytes;
      one.response.destroy();
    }
  }

  return async function cutSlowReaders(ctx, next) {
    await next();
    // Koa writes the answer once all stages have ended. Most are taken by the system at once.
    if (ctx.respond !== false) setImmediate(() => watch(ctx.res));
  };
}
