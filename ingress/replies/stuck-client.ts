import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

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
export async function writeWithin(response: ServerResponse, part: string | Buffer): Promise<void> {
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
