import type { ServerResponse } from 'node:http';

/** A client that takes nothing of what it was sent for this long is gone, whatever its connection says. */
export const stuckMs = 30_000;

/**
 * To be called before the last of a response is written: from then on its connection is cut when the client takes none of it
 * for so long. One that reads slowly gets all of it, for Node starts anew whenever the system has taken a part.
 */
export function cutWhenStuck(response: ServerResponse, ms: number): void {
  response.setTimeout(ms);
  // Before Node's own listener, which sets the time-out of an idle connection; a request that was sent ahead has none.
  response.prependOnceListener('finish', () => response.socket?.setTimeout(0));
}
