import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { Client } from 'undici';
import { takeOverFraming } from '../../../ingress/replies/write-answer.ts';

const pieces = ['data: a\n\n', '', 'data: Grüße, 東京 😀\n\n', 'x'.repeat(70_000), '\r\n0\r\n\r\n'];

async function openServer() {
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const { frame, last } = takeOverFraming(res);
    for (const piece of pieces.slice(0, -1)) res.write(frame(piece));
    res.end(frame(pieces.at(-1) ?? '') + last);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  let connections = 0;
  server.on('connection', () => connections++);
  return { port, connections: () => connections, [Symbol.dispose]: () => void server.close() };
}

test('a client of HTTP/1.1 reads the written text, and its connection serves the next request', async (t) => {
  using server = await openServer();
  const client = new Client(`http://127.0.0.1:${server.port}`);
  t.teardown(() => client.close());
  for (let request = 0; request < 3; request++) {
    const { headers, body } = await client.request({ path: '/', method: 'GET' });
    t.is(headers['transfer-encoding'], 'chunked');
    t.is(await body.text(), pieces.join(''));
  }
  t.is(server.connections(), 1);
});

test('a client of HTTP/1.0 gets the text without framing, up to the end of the connection', async (t) => {
  using server = await openServer();
  const socket = connect(server.port, '127.0.0.1');
  socket.end('GET / HTTP/1.0\r\n\r\n');
  const [head = '', ...body] = (await text(socket)).split('\r\n\r\n');
  t.notRegex(head, /transfer-encoding/i);
  t.is(body.join('\r\n\r\n'), pieces.join(''));
});
