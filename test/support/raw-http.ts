import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export type RawAnswer = {
  status: number;
  /** Names in lower case. Of repeated headers the last one. */
  headers: Record<string, string>;
  body: string;
  /** Statuses of preceding interim responses: 100. */
  interim: number[];
  /** Whether the server closes this connection after it. */
  closes: boolean;
};

type Exchange = {
  port: number;
  /** The bytes to write, or a function that uses the socket. */
  send: string | Buffer | ((socket: Socket) => Promise<void>);
  /** Like a client that reads a response only after it has sent everything, and never if sending fails. */
  readsLast?: boolean;
  /** A response to `HEAD` has a length and no body. */
  method?: string;
  withinMs?: number;
  /** The client's own address: one of this machine, such as `127.0.0.2`. */
  localAddress?: string;
};

/** Sends bytes that no HTTP client would, and reads the first response. Rejects if the connection ends before a complete response. */
export async function exchange(wanted: Exchange): Promise<RawAnswer> {
  const { port, send, readsLast = false, method = 'GET', withinMs = 30_000, localAddress } = wanted;
  const socket = connect({ port, host: '127.0.0.1', ...(localAddress !== undefined && { localAddress }) });
  socket.on('error', () => {}); // reads and writes report errors
  await once(socket, 'connect');
  const late = setTimeout(() => socket.destroy(new Error(`no answer within ${withinMs} ms`)), withinMs);
  try {
    if (typeof send !== 'function') socket.write(send);
    else if (readsLast) await send(socket);
    const answer = readAnswer(socket, method);
    // A refused client may find its connection closed while it still writes. What matters is what it can read.
    if (typeof send === 'function' && !readsLast) send(socket).catch(() => {});
    return await answer;
  } finally {
    clearTimeout(late);
    socket.destroy();
  }
}

async function readAnswer(socket: Socket, method: string): Promise<RawAnswer> {
  let received = '';
  const interim: number[] = [];
  for await (const bytes of socket) {
    received += (bytes as Buffer).toString('latin1'); // a socket without an encoding emits buffers
    for (let answer = parseAnswer(received, method); answer !== undefined; answer = parseAnswer(received, method)) {
      if (answer.status >= 200) return { ...answer, interim };
      interim.push(answer.status);
      received = received.slice(received.indexOf('\r\n\r\n') + 4);
    }
  }
  throw new Error(`the connection ended after ${JSON.stringify(received.slice(0, 200))}`);
}

/** The response at the beginning of the text, or undefined while it is incomplete. */
function parseAnswer(text: string, method: string): Omit<RawAnswer, 'interim'> | undefined {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const [statusLine = '', ...lines] = text.slice(0, headEnd).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error(`not an answer: ${statusLine}`);
  const closes = headers.connection === 'close';
  if (headers['transfer-encoding'] === 'chunked' && method !== 'HEAD') {
    const body = parseChunks(text.slice(headEnd + 4));
    return body === undefined ? undefined : { status, headers, body, closes };
  }
  const length =
    status < 200 || status === 204 || status === 304 || method === 'HEAD' ? 0 : Number(headers['content-length']);
  const bytes = text.slice(headEnd + 4);
  if (Number.isNaN(length)) throw new Error('an answer without a length');
  if (bytes.length < length) return undefined;
  const body = Buffer.from(bytes.slice(0, length), 'latin1').toString('utf8');
  return { status, headers, body, closes };
}

/** The content of these chunks (RFC 9112 7.1), or undefined while the last one is missing. */
function parseChunks(text: string): string | undefined {
  let body = '';
  for (let rest = text; ; ) {
    const sizeEnd = rest.indexOf('\r\n');
    const size = Number.parseInt(rest.slice(0, sizeEnd), 16);
    if (sizeEnd < 0 || rest.length < sizeEnd + size + 4) return undefined;
    if (size === 0) return Buffer.from(body, 'latin1').toString('utf8');
    body += rest.slice(sizeEnd + 2, sizeEnd + 2 + size);
    rest = rest.slice(sizeEnd + 4 + size);
  }
}
