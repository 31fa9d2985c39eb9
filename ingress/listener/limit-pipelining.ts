import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests of one connection that are worked on at once. */
const inHandMax = 4;
/** Requests of one connection that had already been parsed when the fifth came. More are an attack. */
const waitingMax = 100;
/** The same over all connections of this process: each takes a few KB. */
const waitingInAllMax = 5_000;

type Connection = { inHand: number; waiting: [IncomingMessage, ServerResponse][] };

/**
 * Clients may send requests without waiting for the answers (RFC 9112 9.3.2). Without a bound one connection could fill a process
 * with its own requests. Those beyond the fourth wait, and nothing more of their connection is read. Node has parsed what came in one
 * piece, so a connection whose pieces hold more requests than may wait is closed. A client that leaves while requests wait is noticed
 * only when its connection is read or written again.
 */
export function limitPipelining(onRequest: RequestListener): RequestListener {
  const connections = new WeakMap<Socket, Connection>();
  let waitingInAll = 0;

  function connectionOf(socket: Socket): Connection {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = { inHand: 0, waiting: [] };
    connections.set(socket, connection);
    // Node resumes a connection whenever a request of it is complete. A stream that was paused again before that takes effect emits
    // "resume" all the same, but "pause" only once, and Node's HTTP server reads on until it hears of it.
    socket.on('resume', () => {
      if (connection.waiting.length === 0) return;
      socket.pause();
      socket.emit('pause');
    });
    socket.once('close', () => {
      waitingInAll -= connection.waiting.length;
      connection.waiting = [];
    });
    return connection;
  }

  function begin(connection: Connection, [request, response]: Connection['waiting'][number]): void {
    connection.inHand++;
    response.once('close', () => {
      connection.inHand--;
      beginNext(connection, request.socket);
    });
    onRequest(request, response);
  }

  function beginNext(connection: Connection, socket: Socket): void {
    const next = socket.destroyed ? undefined : connection.waiting.shift();
    if (next === undefined) return;
    waitingInAll--;
    if (connection.waiting.length === 0) socket.resume();
    begin(connection, next);
  }

  function wait(connection: Connection, [request, response]: Connection['waiting'][number]): void {
    const { socket } = request;
    if (connection.waiting.length >= waitingMax || waitingInAll >= waitingInAllMax) {
      socket.destroy();
      return;
    }
    connection.waiting.push([request, response]);
    waitingInAll++;
    socket.pause();
  }

  return function serve(request, response) {
    const connection = connectionOf(request.socket);
    if (connection.inHand < inHandMax) begin(connection, [request, response]);
    else wait(connection, [request, response]);
  };
}
