import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { cutWhenStuck } from '../../../ingress/replies/stuck-client.ts';

const ms = 200;

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
    cutWhenStuck(response, ms);
    response.end(Buffer.alloc(64 * 1_048_576)); // larger than the system buffers of both ends
  });
  client.pause();
  client.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  t.false(await closed.promise);
});

test('a pipelined request is answered, however long that takes', async (t) => {
  const client = await connectTo(t, async (request, response) => {
    if (request.url === '/second') await sleep(3 * ms);
    else cutWhenStuck(response, ms);
    response.end(request.url);
  });
  client.setEncoding('utf8');
  client.write('GET /first HTTP/1.1\r\nhost: a\r\n\r\nGET /second HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
  let text = '';
  for await (const piece of client) text += piece;
  t.regex(text, /\/first[\s\S]*\/second$/);
});
