import { once } from 'node:events';
import { connect } from 'node:net';

export interface SlowReader extends Disposable {
  /** Reads everything until the response or its connection ends. */
  readOn(): Promise<string>;
}

type Asking = { url: string; key: string; question: string };

/**
 * Requests a stream on a socket that reads `bytesPerSecond` of it, and none with 0. The rest fills the socket buffers of both sides, and
 * then the service's own.
 */
export async function openSlowReader({ url, key, question }: Asking, bytesPerSecond: number): Promise<SlowReader> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => {}); // its purpose is to be disconnected
  await once(socket, 'connect');
  const body = JSON.stringify({ model: 'small-chat', stream: true, messages: [{ role: 'user', content: question }] });
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'host: localhost',
    'content-type: application/json',
    `authorization: Bearer ${key}`,
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  const taken: Buffer[] = [];
  const take = () => {
    const bytes: unknown = bytesPerSecond > 0 ? socket.read(bytesPerSecond) : null;
    if (bytes instanceof Buffer) taken.push(bytes);
  };
  const taking = setInterval(take, 1_000);
  return {
    async readOn() {
      clearInterval(taking);
      socket.on('data', (bytes: Buffer) => {
        taken.push(bytes);
        // Otherwise its connection would be kept for a next request.
        if (bytes.subarray(-5).toString() === '0\r\n\r\n') socket.end();
      });
      if (!socket.closed) await once(socket, 'close');
      return Buffer.concat(taken).toString();
    },
    [Symbol.dispose]() {
      clearInterval(taking);
      socket.destroy();
    },
  };
}
