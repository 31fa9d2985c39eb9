import { connect } from 'node:net';
import { type Fault, type ModelServer, startModelServer } from '../stack/model-server.ts';

/** A request to an endpoint. */
type Asked = { readonly path: string; readonly body: object };

/** A simulated model server with this fault. */
export async function withFault(fault: Fault): Promise<ModelServer> {
  const server = await startModelServer({ name: 'onprem-a', splitBytes: false });
  server.fail(fault);
  return server;
}

/** Sends the request with further fields. */
export function ask(server: ModelServer, { path, body }: Asked, more: object = {}): Promise<Response> {
  const sent = JSON.stringify({ model: 'm', ...body, ...more });
  return fetch(new URL(path, server.url), { method: 'POST', body: sent });
}

export async function textOf(server: ModelServer, asked: Asked, more: object = {}): Promise<string> {
  return (await ask(server, asked, more)).text();
}

/** What arrives until the connection ends, and how it ends. */
export async function askRaw(server: ModelServer, { path, body }: Asked, more: object = {}) {
  const sent = JSON.stringify({ model: 'm', ...body, ...more });
  const socket = connect(server.port, '127.0.0.1');
  const parts: Buffer[] = [];
  let error: string | undefined;
  socket.on('data', (part: Buffer) => parts.push(part));
  socket.on('error', (cause: NodeJS.ErrnoException) => {
    error = cause.code;
  });
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(sent)}`;
  socket.write(`${head}\r\n\r\n${sent}`);
  await new Promise((resolve) => socket.once('close', resolve));
  const bytes = Buffer.concat(parts);
  return { bytes, text: bytes.toString(), error, parts: parts.length };
}
