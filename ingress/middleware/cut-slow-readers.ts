import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { cutWhenStuck, stuckMs as usualStuckMs } from '../replies/stuck-client.ts';
import type { AppContext, Stage } from '../request-state.ts';

type Bounds = {
  /** A client that reads nothing for so long is disconnected. */
  stuckMs: number;
  /** A client has so long for an answer, and as much more as its bytes take at the least rate. */
  graceMs: number;
  bytesPerSecondMin: number;
  /** Of answers in this process that their clients have not read yet. Past it, connections are closed, the slowest first. */
  heldBytesMax: number;
  /** No connection is closed for that before its answer is so old. */
  sparedMs: number;
  lookEveryMs: number;
};

const usual: Bounds = {
  stuckMs: usualStuckMs,
  graceMs: 60_000,
  bytesPerSecondMin: 16_384,
  heldBytesMax: 67_108_864,
  sparedMs: 10_000,
  lookEveryMs: 1_000,
};

type Connection = { socket: Socket; since: number; heldBytes: number; readBytes: number };
/** `isShared`: the answer is in memory in any case. */
type Unread = { response: ServerResponse; socket: Socket; isShared: boolean; since: number };

/**
 * An answer that is larger than the buffers of the system is held in memory until its client has read it. A client that reads
 * nothing for 30 s, or all of it too slowly, is disconnected. While all such answers together are too large, so are the clients that
 * have read least within the last second, and among equals those with the largest answers. What a client has then received is shorter
 * than its `Content-Length`. Event streams have bounds of their own (reply-buffer.ts).
 */
export function cutSlowReaders(wishes: Partial<Bounds> = {}): Stage {
  const { stuckMs, graceMs, bytesPerSecondMin, heldBytesMax, sparedMs, lookEveryMs } = { ...usual, ...wishes };
  /** Oldest first. */
  const unread = new Set<Unread>();
  const readAtLastLook = new WeakMap<Socket, number>();
  let looking: NodeJS.Timeout | undefined;

  function watch({ req: { socket }, res: response, state }: AppContext): void {
    if (response.writableFinished || response.closed || socket.destroyed) return;
    // An answer to a request that was sent ahead is written when the one before it has been read.
    if (response.socket === null) response.once('socket', () => limitTime(response));
    else limitTime(response);
    const one = { response, socket, isShared: state.isBodyShared === true, since: performance.now() };
    unread.add(one);
    if (!readAtLastLook.has(socket)) readAtLastLook.set(socket, readBytes(socket));
    response.once('close', () => unread.delete(one));
    // After a pause of the event loop, only once the system has been given what it can take.
    looking ??= setInterval(() => setImmediate(look), lookEveryMs).unref();
  }

  function limitTime(response: ServerResponse): void {
    const bytes = Math.max(response.writableLength, Number(response.getHeader('content-length') ?? 0));
    const late = setTimeout(() => response.destroy(), graceMs + (bytes / bytesPerSecondMin) * 1_000);
    response.once('close', () => clearTimeout(late));
    cutWhenStuck(response, stuckMs);
  }

  function look(): void {
    // An answer that had not begun does not hear of the end of its connection.
    for (const one of unread) if (one.socket.destroyed) unread.delete(one);
    if (unread.size === 0) {
      clearInterval(looking);
      looking = undefined;
      return;
    }
    closeSlowest(
      [...Map.groupBy(unread, ({ socket }) => socket)].map(([socket, answers]) => ({
        socket,
        since: answers[0]?.since ?? 0,
        heldBytes: answers.reduce((sum, { response, isShared }) => sum + (isShared ? 0 : response.writableLength), 0),
        readBytes: readSinceLastLook(socket),
      })),
    );
  }

  function closeSlowest(connections: Connection[]): void {
    let heldBytes = connections.reduce((sum, connection) => sum + connection.heldBytes, 0);
    if (heldBytes <= heldBytesMax) return;
    connections.sort((one, other) => one.readBytes - other.readBytes || other.heldBytes - one.heldBytes);
    const sparedSince = performance.now() - sparedMs;
    for (const connection of connections) {
      if (heldBytes <= heldBytesMax) return;
      if (connection.since > sparedSince || connection.heldBytes === 0) continue;
      heldBytes -= connection.heldBytes;
      connection.socket.destroy();
    }
  }

  function readSinceLastLook(socket: Socket): number {
    const bytes = readBytes(socket);
    const before = readAtLastLook.get(socket) ?? bytes;
    readAtLastLook.set(socket, bytes);
    return bytes - before;
  }

  return async function cutSlowReaders(ctx, next) {
    await next();
    // Koa writes the answer once all stages have ended. Most are taken by the system at once.
    if (ctx.respond !== false) setImmediate(() => watch(ctx));
  };
}

/**
 * What the system has taken of all that was written to this connection. Node's own `writableLength` stays as it is until a whole
 * buffer is taken; its handle counts bytes, and Node's time-outs depend on that. Without it nothing counts as read.
 */
function readBytes(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { _handle?: { writeQueueSize?: number } | null }; // not in Node's types
  return socket.bytesWritten - (handle?.writeQueueSize ?? 0);
}
