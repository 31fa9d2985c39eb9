import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { cutWhenStuck } from '../../../ingress/replies/write-answer.ts';

async function connectTo(t: ExecutionContext, answer: RequestListener) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1'); // a TCP server's address
  client.on('error', () => {});
  t.teardown(() => {
    client.destroy();
    server.close();
    server.closeAllConnections();
  });
  return client;
}

test('a client that stops reading is disconnected', async (t) => {
  const closed = Promise.withResolvers<boolean>();
  const client = await connectTo(t, (_, response) => {
    response.on('close', () => closed.resolve(response.writableFinished));
    cutWhenStuck(response, 200);
    response.end(Buffer.alloc(64 * 1_048_576)); // larger than the system buffers of both ends
  });
  client.pause();
  client.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  t.false(await closed.promise);
});

test('a pipelined request may take any time: the limit of the answer before it is over', async (t) => {
  const finished = Promise.withResolvers<void>();
  const client = await connectTo(t, async (request, response) => {
    if (request.url === '/first') {
      cutWhenStuck(response, 60_000);
      response.once('finish', finished.resolve).end();
    } else {
      await finished.promise;
      response.end(`limit ${request.socket.timeout}`);
    }
  });
  client.setEncoding('utf8');
  client.write('GET /first HTTP/1.1\r\nhost: a\r\n\r\nGET /second HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
  let text = '';
  for await (const piece of client) text += piece;
  t.regex(text, /limit 0$/);
});
