import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { answerFor } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat, wholeText } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { createKeyClient } from '../support/key-client.ts';
import { databaseUrl, startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { contentType, file, multipart, purpose } from '../support/multipart.ts';
import { exchange } from '../support/raw-http.ts';
import { head } from '../support/refusal.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const question = 'Which store has the keys?';
const mongo = await startMongo();
const notRun = 'reason' in mongo ? mongo.reason : undefined;

const parts = new AsyncDisposableStack();
let proxy: TcpProxy;
let stack: Stack;

test.before(async () => {
  if ('reason' in mongo) return;
  parts.use(mongo);
  proxy = parts.use(await startTcpProxy(addressIn(mongo.url), 'refuse'));
  const url = urlThrough(proxy.port, databaseUrl(mongo.url, `away-${process.pid}`));
  stack = parts.use(await startStack({ databaseUrl: url }));
});
test.after.always(() => parts.disposeAsync());

faultTest(
  test.serial,
  {
    id: '14c',
    done: 'the store is unreachable when the processes start, and again later',
    promised: 'known keys: unaffected; all other calls: 503, never 401; works again when it is back',
    notRun,
  },
  async (t, see) => {
    if ('description' in mongo) see(mongo.description);
    const api = stack.ingresses[0]?.url ?? '';
    const mint = async (account: string) =>
      fetch(`${api}/v1/keys/developer`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${await stack.identity.token(account)}` },
        body: '{}',
      });
    const early = await mint('alice');
    t.is(early.status, 503);
    t.truthy(early.headers.get('retry-after'));

    proxy.become('pass');
    const minted = await mint('alice');
    t.is(minted.status, 200);
    const { key } = (await minted.json()) as { key: string }; // a response of the service itself
    t.is((await chat({ url: api, key, question })).status, 200);
    const neverUsed = await stack.mintKey('bob');

    proxy.become('refuse');
    const known = await chat({ url: api, key, question });
    t.is(known.status, 200);
    t.is(await wholeText(known), answerFor([{ role: 'user', content: question }]));
    const unknown = await chat({ url: api, key: neverUsed, question });
    t.is(unknown.status, 503);
    t.truthy(unknown.headers.get('retry-after'));
    t.like(await unknown.json(), { code: 'SERVICE_UNAVAILABLE' });
    const readiness = await fetch(`${stack.ingresses[0]?.operationsUrl}/readyz`);
    t.is(readiness.status, 200);
    t.like(await readiness.json(), { dependencies: { store: { state: 'degraded' } } });

    proxy.become('pass');
    const afterwards = await chat({ url: api, key: neverUsed, question });
    t.is(afterwards.status, 200);
    see(`key management: ${early.status}, then ${minted.status}; a known key: ${known.status}`);
    see(`another key: ${unknown.status}, then ${afterwards.status}`);
  },
);

faultTest(
  test.serial,
  {
    id: 'B6',
    done: 'the store is unreachable for files and batches, during an upload',
    promised: '503 with Retry-After; an incomplete upload leaves no file; works again when it is back',
    notRun,
  },
  async (t, see) => {
    const keys = createKeyClient(stack);
    const key = await keys.newKey('carol');
    const files = createFileClient(stack, key);
    const kept = (await files.upload(line('a'))).id;
    const batch = (await files.submitBatch(kept)).id;
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
    const { data } = (await files.files()) as unknown as { data: { id: string; purpose: string }[] }; // a list of the service itself
    const uploaded = data.filter(({ purpose }) => purpose === 'batch');
    t.deepEqual(
      uploaded.map(({ id }) => id),
      [kept],
      'the interrupted upload left no file',
    );
    t.is((await files.upload(line('b'))).object, 'file');
    const unavailable = statuses.filter((status) => status === 503).length;
    see(`${unavailable} of ${statuses.length} calls got 503, an upload among them`);
  },
);
