import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The most requests of one connection that run at once. */
const runningMax = 4;
/** The most requests of one connection that may wait: Node had already parsed them. More are an attack. */
const waitingMax = 100;
/** The same for all connections of this process. Each waiting request takes a few KB. */
const waitingTotalMax = 5_000;

type Connection = { running: number; waiting: [IncomingMessage, ServerResponse][] };

/**
 * Bounds the requests of one connection that run at once (contract.md#l3-connections). Clients may send requests without waiting for the
 * responses (RFC 9112 9.3.2), so without a bound one connection could fill a process. Requests beyond the fourth wait, and nothing more of
 * their connection is read. Node parses everything that arrives in one piece, so a connection whose piece holds more requests than may wait
 * is closed. A client that disconnects while requests wait is noticed only when its connection is read or written again.
 */
export function limitPipelining(onRequest: RequestListener): RequestListener {
  const connections = new WeakMap<Socket, Connection>();
  let waitingTotal = 0;

  function connectionOf(socket: Socket): Connection {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = { running: 0, waiting: [] };
    connections.set(socket, connection);
    // Node resumes a connection whenever one of its requests is complete. A stream that is paused again before that takes effect still
    // emits "resume", but "pause" only once, and Node's HTTP server continues to read until it receives "pause".
    socket.on('resume', () => {
      if (connection.waiting.length === 0) return;
      socket.pause();
      socket.emit('pause');
    });
    socket.once('close', () => {
      waitingTotal -= connection.waiting.length;
      connection.waiting = [];
    });
    return connection;
  }

  function begin(connection: Connection, [request, response]: Connection['waiting'][number]): void {
    connection.running++;
    response.once('close', () => {
      connection.running--;
      beginNext(connection, request.socket);
    });
    onRequest(request, response);
  }

  function beginNext(connection: Connection, socket: Socket): void {
    const next = socket.destroyed ? undefined : connection.waiting.shift();
    if (next === undefined) return;
    waitingTotal--;
    if (connection.waiting.length === 0) socket.resume();
    begin(connection, next);
  }

  function wait(connection: Connection, [request, response]: Connection['waiting'][number]): void {
    const { socket } = request;
    if (connection.waiting.length >= waitingMax || waitingTotal >= waitingTotalMax) {
      socket.destroy();
      return;
    }
    connection.waiting.push([request, response]);
    waitingTotal++;
    socket.pause();
  }

  return function serve(request, response) {
    const connection = connectionOf(request.socket);
    if (connection.running < runningMax) begin(connection, [request, response]);
    else wait(connection, [request, response]);
  };
}
