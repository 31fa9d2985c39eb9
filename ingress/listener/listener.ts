import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ParserError } from '../middleware/answer-errors.ts';
import { type ConnectionBounds, limitConnections } from './limit-connections.ts';
import { limitPipelining } from './limit-pipelining.ts';

/** The whole head of a request has to arrive within this time. */
const headersTimeoutMs = 10_000;
const headersBytesMax = 16_384;
/** Longer than the idle time of common load balancers (60 s), which would else send a request into a closing connection. */
const keepAliveTimeoutMs = 65_000;
const lastAnswersMs = 2_000;
/** A connection on which nothing has come for so long after we began to close is one that its client keeps in store. */
const unusedMs = 1_000;

export interface Listener {
  port: number;
  /** Connections that are open. */
  connections(): number;
  /**
   * Accepts nothing new and waits for what has begun, at most `graceMs`; then `giveUp` is to make everything that still
   * waits answer, and what has not answered two seconds later is cut.
   */
  close(options: { graceMs: number; giveUp: () => void }): Promise<void>;
}

/** The HTTP server of the public listener. Nothing it refuses by itself goes without an answer of ours. */
export async function listen({
  host,
  port,
  connections: bounds,
  onRequest,
  onBrokenRequest,
}: {
  host: string;
  port: number;
  connections: ConnectionBounds;
  onRequest: RequestListener;
  /** `owed` are the responses that this connection's earlier requests still wait for. */
  onBrokenRequest: (fault: ParserError, socket: Duplex, owed: readonly ServerResponse[]) => void;
}): Promise<Listener> {
  const open = new Set<ServerResponse>();
  const connections = new Set<Socket>();
  const handle = limitPipelining(onRequest);
  let closing = false;

  const server = createServer({
    maxHeaderSize: headersBytesMax,
    headersTimeout: headersTimeoutMs,
    requestTimeout: 0, // the body has its own time, with an answer of ours
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: keepAliveTimeoutMs,
    requireHostHeader: false, // checked by a stage, which answers in our shape
  });

  function serve(request: IncomingMessage, response: ServerResponse): void {
    open.add(response);
    response.once('close', () => open.delete(response));
    if (closing) response.shouldKeepAlive = false;
    handle(request, response);
  }

  function refuse(fault: ParserError, socket: Duplex): void {
    onBrokenRequest(
      fault,
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
  // Whoever asks before sending a body is told to go on by the stage that reads it, and only if it will be read.
  server.on('checkContinue', serve);
  // An expectation other than 100-continue is not met, and RFC 9110 10.1.1 lets a server ignore it.
  server.on('checkExpectation', serve);
  // Node closes the connection of a CONNECT that nobody listens for, without a word.
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    // Node has let go of this socket: a reset that nobody listens for would end the process.
    socket.on('error', () => {});
    const rawPacket = Buffer.from(`CONNECT ${request.url} HTTP/1.1\r\n`);
    refuse(Object.assign(new Error('CONNECT'), { code: 'HPE_INVALID_METHOD', rawPacket }), socket);
  });
  server.on('clientError', refuse);
  server.listen(port, host);
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port, // a TCP server's address
    connections: () => connections.size,
    async close({ graceMs, giveUp }) {
      closing = true;
      for (const response of open) if (!response.headersSent) response.shouldKeepAlive = false;
      const closed = once(server, 'close');
      server.close();
      const grace = setTimeout(giveUp, graceMs);
      const cut = setTimeout(() => server.closeAllConnections(), graceMs + lastAnswersMs);
      // A connection whose answer was already on its way stays open for a next request: it is idle when that has ended.
      const sweep = setInterval(() => server.closeIdleConnections(), 100);
      // To Node one that was never used is not idle, and would be waited for.
      const unused = setTimeout(() => {
        for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
      }, unusedMs);
      await closed;
      clearTimeout(unused);
      clearTimeout(grace);
      clearTimeout(cut);
      clearInterval(sweep);
    },
  };
}
