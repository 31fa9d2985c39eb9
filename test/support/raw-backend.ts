import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

/** A listener that writes raw bytes, for responses that no HTTP server would send. It counts its connections. */
export interface RawBackend extends AsyncDisposable {
  url: string;
  port: number;
  /** All connections so far, and those that are open now. */
  connections(): number;
  open(): number;
  requests(): number;
  /** Resolves when no connection is open. */
  untilClosed(): Promise<void>;
}

/** Calls `answer` for each request once it has been read completely. Without it nothing is ever sent. */
export async function startRawBackend(
  answer: (socket: Socket) => unknown = () => {},
  certificate?: { cert: string; key: string },
): Promise<RawBackend> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let requests = 0;
  const onConnection = (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    let received = '';
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      if (sockets.size === 0) server.emit('empty');
    });
    socket.setEncoding('latin1').on('data', (text: string) => {
      received += text;
      const [head = '', body = ''] = received.split('\r\n\r\n', 2);
      const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.POSITIVE_INFINITY);
      if (body.length < length) return;
      received = '';
      requests += 1;
      answer(socket);
    });
  };
  const server = certificate === undefined ? createServer(onConnection) : createTlsServer(certificate, onConnection);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP listener has one

  return {
    url: `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}/v1`,
    port,
    connections: () => connections,
    open: () => sockets.size,
    requests: () => requests,
    async untilClosed() {
      while (sockets.size > 0) await once(server, 'empty');
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** An HTTP response with a chunked body, without its end unless `ended`. */
export function rawAnswer(body: string, { status = '200 OK', type = 'text/event-stream', ended = true } = {}): string {
  const chunk = body === '' ? '' : `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`;
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n${chunk}${ended ? '0\r\n\r\n' : ''}`;
}
