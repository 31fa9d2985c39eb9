import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openMongoTests } from '../support/mongodb/mongo-tests.ts';
import { databaseUrl, urlThrough } from '../support/mongodb/start-mongo.ts';
import { contentType, file, multipart, purpose } from '../support/multipart.ts';
import { exchange } from '../support/raw-http.ts';
import { head } from '../support/refusal.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';

const { server, notRun } = await openMongoTests(test);

faultTest(
  test,
  {
    id: 'B6',
    done: 'the store is away for files and batches, in the middle of an upload',
    promised: '503 with Retry-After; what was not written whole is no file; well again when it is back',
    notRun,
  },
  async (t, see) => {
    const mongo = server();
    await using proxy = await startTcpProxy(addressIn(mongo.url), 'pass');
    const url = urlThrough(proxy.port, databaseUrl(mongo.url, `files-away-${process.pid}`));
    await using stack = await startStack({ databaseUrl: url, workers: 0 });
    const keys = createKeyClient(stack);
    const key = await keys.newKey('alice');
    const files = createFileClient(stack, key);
    const kept = (await files.upload(`${line('a')}\n`.repeat(20_000))).id;
    const batch = (await files.handIn(kept)).id;
    const port = Number(new URL(stack.ingresses[0]?.url ?? '').port);

    const body = multipart([purpose, file(`${line('a')}\n`.repeat(20_000))]);
    const answer = await exchange({
      port,
      withinMs: 40_000,
      async send(socket) {
        const lines = [`Authorization: Bearer ${key}`, contentType(), `Content-Length: ${body.length}`];
        socket.write(head('POST /v1/files HTTP/1.1', ...lines));
        socket.write(body.subarray(0, 100_000));
        await sleep(500);
        proxy.become('refuse');
        if (!socket.write(body.subarray(100_000))) await once(socket, 'drain');
      },
    });
    t.deepEqual([answer.status, JSON.parse(answer.body).code], [503, 'SERVICE_UNAVAILABLE'], answer.body);
    t.truthy(answer.headers['retry-after']);

    const statuses = [answer.status];
    for (const [method, path] of [
      ['GET', '/v1/files'],
      ['GET', `/v1/files/${kept}`],
      ['GET', `/v1/files/${kept}/content`],
      ['DELETE', `/v1/files/${kept}`],
      ['GET', '/v1/batches'],
      ['GET', `/v1/batches/${batch}`],
      ['POST', `/v1/batches/${batch}/cancel`],
    ] as const) {
      const { status, body, headers } = await keys.send(method, path, { bearer: key });
      statuses.push(status);
      t.deepEqual([status, body.code], [503, 'SERVICE_UNAVAILABLE'], path);
      t.truthy(headers.get('retry-after'), path);
    }

    proxy.become('pass');
    const { data } = (await files.files()) as unknown as { data: { id: string }[] }; // the service's own list
    t.deepEqual(
      data.map(({ id }) => id),
      [kept],
      'what was deleted and what was not written whole are no files of anybody',
    );
    t.is((await files.upload(line('b'))).object, 'file');
    const unavailable = statuses.filter((status) => status === 503).length;
    see(`${unavailable} of ${statuses.length} calls told by 503, an upload among them`);
  },
);
