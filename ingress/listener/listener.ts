import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { untilListening } from '../../shared/process/start-error.ts';
import { networkOf } from './request-headers.ts';

/** Time for the complete head of a request to arrive. */
const headersTimeoutMs = 10_000;
const headersBytesMax = 16_384;
const lastAnswersMs = 2_000;
/** A connection on which nothing arrives for this long after the close began is a spare one that its client keeps open. */
const unusedMs = 1_000;

const serverOptions: ServerOptions = {
  maxHeaderSize: headersBytesMax,
  headersTimeout: headersTimeoutMs,
  requestTimeout: 0, // the body has its own time limit, with our response
  connectionsCheckingInterval: 1_000,
  requireHostHeader: false, // checked by a stage, which answers in our format
};

export interface Listener {
  port: number;
  /** Open connections. */
  connections(): number;
  /**
   * Serves as before, but each response closes its connection (`Connection: close`): so a proxy has no idle connection left that it could
   * send a request into when the listener closes.
   */
  drain(): void;
  /**
   * Accepts what has arrived, then nothing new, and waits up to `graceMs` for the requests in progress. Then calls `giveUp`, which must make
   * the remaining ones answer. Two seconds later closes all connections.
   */
  close(options: ClosingOptions): Promise<void>;
}

type ClosingOptions = { graceMs: number; giveUp: () => void };

/** The HTTP server of the public listener. Everything that Node's server refuses gets a response of ours. */
export async function listen({
  host,
  port,
  keepAliveMs,
  connections: bounds,
  onRequest,
  onBrokenRequest,
}: {
  host: string;
  port: number;
  /** How long a connection without a request stays open. */
  keepAliveMs: number;
  connections: ConnectionBounds;
  onRequest: RequestListener;
  /** `owed`: the responses that earlier requests of this connection still wait for. */
  onBrokenRequest: (error: ParserError, socket: Duplex, owed: readonly ServerResponse[]) => void;
}): Promise<Listener> {
  const open = new Set<ServerResponse>();
  const connections = new Set<Socket>();
  const handle = limitPipelining(onRequest);
  let draining = false;

  const server = createServer({ ...serverOptions, keepAliveTimeout: keepAliveMs });

  function serve(request: IncomingMessage, response: ServerResponse): void {
    open.add(response);
    response.once('close', () => open.delete(response));
    if (draining) response.shouldKeepAlive = false;
    handle(request, response);
  }

  function refuse(error: ParserError, socket: Duplex): void {
    onBrokenRequest(
      error,
      socket,
      [...open].filter((response) => response.req.socket === socket),
    );
  }

  limitConnections(server, bounds);
  server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', serve);
  // The stage that reads the body sends 100 Continue, and only if the body will be read.
  server.on('checkContinue', serve);
  // An expectation other than 100-continue is not met. RFC 9110 10.1.1 lets a server ignore it.
  server.on('checkExpectation', serve);
  // Without a listener, Node closes the connection of a CONNECT request without a response.
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    // Node no longer handles this socket: an unhandled reset would end the process.
    socket.on('error', () => {});
    const rawPacket = Buffer.from(`CONNECT ${request.url} HTTP/1.1\r\n`);
    refuse(Object.assign(new Error('CONNECT'), { code: 'HPE_INVALID_METHOD', rawPacket }), socket);
  });
  server.on('clientError', refuse);
  server.listen(port, host);
  await untilListening(server, { name: 'PORT', host, port });

  return {
    port: (server.address() as AddressInfo).port, // a TCP server's address
    connections: () => connections.size,
    drain,
    async close(options) {
      drain();
      await closeServer(server, connections, options);
    },
  };

  function drain(): void {
    draining = true;
    for (const response of open) if (!response.headersSent) response.shouldKeepAlive = false;
  }
}

async function closeServer(
  server: Server,
  connections: ReadonlySet<Socket>,
  { graceMs, giveUp }: ClosingOptions,
): Promise<void> {
  const closed = once(server, 'close');
  const grace = setTimeout(giveUp, graceMs);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs + lastAnswersMs);
  await acceptArrived(server);
  server.close();
  // A connection whose response is already being sent stays open for a next request: it is idle after that response.
  const sweep = setInterval(() => server.closeIdleConnections(), 100);
  // For Node a connection that was never used is not idle, so the close would wait for it.
  const unused = setTimeout(() => {
    for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
  }, unusedMs);
  await closed;
  clearTimeout(unused);
  clearTimeout(grace);
  clearTimeout(cut);
  clearInterval(sweep);
}

/** On a busy ingress no turn may be short, and connections may arrive without end. */
const acceptMs = 500;
const shortTurnMs = 0.2;

/**
 * Resolves right after a turn of the event loop that accepted nothing and did little, or after `acceptMs`. The system resets the connections
 * that it has made and that are not accepted when the socket closes. A proxy may have sent a request into one, and must not send it again.
 */
async function acceptArrived(server: Server): Promise<void> {
  let accepted = 0;
  const note = () => void accepted++;
  server.on('connection', note);
  await nextTurn();
  for (const until = performance.now() + acceptMs; performance.now() < until; ) {
    const [acceptedBefore, begunAt] = [accepted, performance.now()];
    await nextTurn();
    if (accepted === acceptedBefore && performance.now() - begunAt < shortTurnMs) break;
  }
  server.off('connection', note);
}

export type ParserError = Error & { code?: string; rawPacket?: Buffer };

export type ConnectionBounds = {
  connectionsMax: number;
  /** For one IPv4 address or IPv6 /64; undefined behind our own proxies, because all connections come from them. */
  perAddressMax: number | undefined;
  /** Called for each connection that is closed at once. */
  onRefused: () => void;
};

/**
 * Closes connections beyond the bounds before a byte is read (contract.md#l3-connections). There is no request yet that could be answered.
 */
function limitConnections(server: Server, { connectionsMax, perAddressMax, onRefused }: ConnectionBounds): void {
  const ofAddress = new Map<string, number>();
  server.maxConnections = connectionsMax;
  server.on('drop', onRefused);
  if (perAddressMax === undefined) return;

  server.on('connection', (socket: Socket) => {
    const address = networkOf(socket.remoteAddress ?? 'unknown');
    const connections = (ofAddress.get(address) ?? 0) + 1;
    if (connections > perAddressMax) {
      onRefused();
      socket.destroy();
      return;
    }
    ofAddress.set(address, connections);
    socket.once('close', () => {
      const left = (ofAddress.get(address) ?? 0) - 1;
      if (left > 0) ofAddress.set(address, left);
      else ofAddress.delete(address);
    });
  });
}

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
function limitPipelining(onRequest: RequestListener): RequestListener {
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
