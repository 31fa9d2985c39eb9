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
import { untilListening } from '../../shared/process/start-error.ts';
import { type ConnectionBounds, limitConnections } from './limit-connections.ts';
import { limitPipelining } from './limit-pipelining.ts';

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
   * Accepts nothing new and waits up to `graceMs` for the requests in progress. Then calls `giveUp`, which must make the remaining ones
   * answer. Two seconds later closes all connections.
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
  server.close();
  const grace = setTimeout(giveUp, graceMs);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs + lastAnswersMs);
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
export type ParserError = Error & { code?: string; rawPacket?: Buffer };
