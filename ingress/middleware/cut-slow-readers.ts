import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { cutWhenStuck, stuckMs as defaultStuckMs } from '../replies/write-answer.ts';
import type { AppContext, Stage } from '../request-state.ts';

type Bounds = {
  /** A client that reads nothing for this long is disconnected. */
  stuckMs: number;
  /** The time that a client has for an answer, plus the time that its bytes take at the minimum rate. */
  graceMs: number;
  bytesPerSecondMin: number;
  /** Bytes of answers in this process that clients have not read yet. Beyond it, connections are closed, the slowest first. */
  heldBytesMax: number;
  /** No connection is closed for that reason before its answer is this old. */
  ageMsMin: number;
  lookEveryMs: number;
};

const defaults: Bounds = {
  stuckMs: defaultStuckMs,
  graceMs: 60_000,
  bytesPerSecondMin: 16_384,
  heldBytesMax: 67_108_864,
  ageMsMin: 10_000,
  lookEveryMs: 1_000,
};

type Connection = { socket: Socket; since: number; heldBytes: number; readBytes: number };
/** `isShared`: the body is in memory anyway, for all requests together. */
type UnreadAnswer = { response: ServerResponse; socket: Socket; isShared: boolean; since: number };

/**
 * Disconnects clients that read their answers too slowly (contract.md#v1-unread-answers,
 * decisions.md#the-slowest-readers-are-disconnected). An answer that is larger than the buffers of the system is held in memory until its
 * client has read it. A client that reads nothing for 30 s, or the answer too slowly, is disconnected. While all such answers together are
 * too large, so are the clients that have read least within the last second, and among equals those with the largest answers. Then a client
 * has received less than its `Content-Length`. Event streams have other bounds (reply-buffer.ts).
 */
export function cutSlowReaders(changed: Partial<Bounds> = {}): Stage {
  const bounds = { ...defaults, ...changed };
  /** Oldest first. */
  const unread = new Set<UnreadAnswer>();
  const readAtLastLook = new WeakMap<Socket, number>();
  let looking: NodeJS.Timeout | undefined;

  function watch({ req: { socket }, res: response, state }: AppContext): void {
    if (response.writableFinished || response.closed || socket.destroyed) return;
    const limit = () => (state.limitsReading ? cutWhenStuck(response, bounds.stuckMs) : limitTime(response, bounds));
    // An answer to a pipelined request is written after the client has read the one before it.
    if (response.socket === null) response.once('socket', limit);
    else limit();
    const one = { response, socket, isShared: state.isBodyShared === true, since: performance.now() };
    unread.add(one);
    if (!readAtLastLook.has(socket)) readAtLastLook.set(socket, readBytes(socket));
    response.once('close', () => unread.delete(one));
    // After a pause of the event loop, look only after the system has taken what it can.
    looking ??= setInterval(() => setImmediate(look), bounds.lookEveryMs).unref();
  }

  function look(): void {
    // An answer that has not begun gets no event when its connection ends.
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
      bounds,
    );
  }

  function readSinceLastLook(socket: Socket): number {
    const bytes = readBytes(socket);
    const before = readAtLastLook.get(socket) ?? bytes;
    readAtLastLook.set(socket, bytes);
    return bytes - before;
  }

  return async function cutSlowReaders(ctx, next) {
    await next();
    // Koa writes the answer after all stages. The system takes most answers at once.
    if (ctx.respond !== false) setImmediate(() => watch(ctx));
  };
}

function limitTime(response: ServerResponse, { graceMs, bytesPerSecondMin, stuckMs }: Bounds): void {
  const bytes = Math.max(response.writableLength, Number(response.getHeader('content-length') ?? 0));
  const late = setTimeout(() => response.destroy(), graceMs + (bytes / bytesPerSecondMin) * 1_000);
  response.once('close', () => clearTimeout(late));
  cutWhenStuck(response, stuckMs);
}

function closeSlowest(connections: Connection[], { heldBytesMax, ageMsMin }: Bounds): void {
  let heldBytes = connections.reduce((sum, connection) => sum + connection.heldBytes, 0);
  if (heldBytes <= heldBytesMax) return;
  connections.sort((one, other) => one.readBytes - other.readBytes || other.heldBytes - one.heldBytes);
  const startedBefore = performance.now() - ageMsMin;
  for (const connection of connections) {
    if (heldBytes <= heldBytesMax) return;
    if (connection.since > startedBefore || connection.heldBytes === 0) continue;
    heldBytes -= connection.heldBytes;
    connection.socket.destroy();
  }
}

/**
 * Returns the bytes written to this connection that the system has taken. Node's `writableLength` changes only when a complete buffer has
 * been taken. Its handle counts bytes, and Node's own time-outs depend on that. Without the handle the result does not change while a
 * client reads.
 */
function readBytes(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { _handle?: { writeQueueSize?: number } | null }; // not in Node's types
  return socket.bytesWritten - (handle?.writeQueueSize ?? 0);
}
