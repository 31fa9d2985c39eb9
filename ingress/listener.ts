import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ParserFault } from './middleware/answer-errors.ts';

/** The whole head of a request has to arrive within this time. */
const headersTimeoutMs = 10_000;
const headersBytesMax = 16_384;
/** Longer than the idle time of common load balancers (60 s), which would else send a request into a closing connection. */
const keepAliveTimeoutMs = 65_000;
const lastAnswersMs = 2_000;

type Parts = {
  host: string;
  port: number;
  onRequest: RequestListener;
  onBrokenRequest: (fault: ParserFault, socket: Duplex, response: ServerResponse | undefined) => void;
};

export interface Listener {
  port: number;
  /**
   * Accepts nothing new and waits for what has begun, at most `graceMs`; then `giveUp` is to make everything that still
   * waits answer, and what has not answered two seconds later is cut.
   */
  close(options: { graceMs: number; giveUp: () => void }): Promise<void>;
}

/** The HTTP server of the public listener. Nothing it refuses by itself goes without an answer of ours. */
export async function listen({ host, port, onRequest, onBrokenRequest }: Parts): Promise<Listener> {
  const responses = new Map<Duplex, ServerResponse>();
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
    const { socket } = request;
    responses.set(socket, response);
    response.once('close', () => {
      if (responses.get(socket) === response) responses.delete(socket);
    });
    if (closing) response.shouldKeepAlive = false;
    onRequest(request, response);
  }

  server.on('request', serve);
  // An expectation other than 100-continue is not met, and RFC 9110 10.1.1 lets a server ignore it.
  server.on('checkExpectation', serve);
  // Node closes the connection of a CONNECT that nobody listens for, without a word.
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    const rawPacket = Buffer.from(`CONNECT ${request.url} HTTP/1.1\r\n`);
    onBrokenRequest(Object.assign(new Error('CONNECT'), { code: 'HPE_INVALID_METHOD', rawPacket }), socket, undefined);
  });
  server.on('clientError', (fault: ParserFault, socket) => onBrokenRequest(fault, socket, responses.get(socket)));
  server.listen(port, host);
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port, // a TCP server's address
    async close({ graceMs, giveUp }) {
      closing = true;
      for (const response of responses.values()) if (!response.headersSent) response.shouldKeepAlive = false;
      const closed = once(server, 'close');
      server.close();
      const grace = setTimeout(giveUp, graceMs);
      const cut = setTimeout(() => server.closeAllConnections(), graceMs + lastAnswersMs);
      // A connection whose answer was already on its way stays open for a next request: it is idle when that has ended.
      const sweep = setInterval(() => server.closeIdleConnections(), 100);
      await closed;
      clearTimeout(grace);
      clearTimeout(cut);
      clearInterval(sweep);
    },
  };
}
