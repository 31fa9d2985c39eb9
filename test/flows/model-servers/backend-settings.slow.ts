import { once } from 'node:events';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { startStack } from '../../stack/stack.ts';
import { openAccount } from '../../support/endpoints/open-account.ts';
import { dataOf, saidBy } from '../../support/endpoints/scripted-backend.ts';

type Call = { url: string | undefined; headers: IncomingHttpHeaders };

/** A model server that keeps the head of each call. */
async function startServer(t: ExecutionContext) {
  const calls: Call[] = [];
  const server = createServer(async ({ url, headers, method }, response) => {
    if (method === 'GET') return response.end('{"object":"list","data":[]}');
    calls.push({ url, headers });
    const path = new URL(url ?? '', 'http://server').pathname.replace('/v1', '');
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(saidBy(path).map(dataOf).join(''));
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.closeAllConnections());
  t.teardown(() => server.close());
  await once(server, 'listening');
  return { calls, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` }; // a TCP listener has one
}

test('the key of a file, fixed headers and parameters arrive at their backend, and so does a new key, without a restart', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'backend-settings-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = join(folder, 'key');
  const [first, second] = ['first-key-7c1d', 'second-key-90ae'];
  await writeFile(file, `${first}\n`);
  const server = await startServer(t);
  const settings = { api_key_file: file, headers: { 'x-team': 'a b' }, query: { 'api-version': '2026-01-01' } };
  const model = { tier: 'guest', pool: 'default', endpoints: ['chat', 'messages'], output_tokens_max: 100 };
  await using stack = await startStack({
    models: { plain: { ...model, backends: ['bearer'] }, named: { ...model, backends: ['named'] } },
    backends: {
      bearer: { ...settings, url: server.url, location: 'on-prem' },
      named: { ...settings, url: server.url, location: 'on-prem', api_key_header: 'x-api-key' },
    },
  });
  const { post } = await openAccount(stack, 'alice');
  const messages = [{ role: 'user', content: 'Hello' }];
  /** The call that the backend got for this request. */
  async function called(path: string, name: string): Promise<Call> {
    const answer = await post(path, { model: name, messages, max_tokens: 10 });
    t.is(answer.status, 200, await answer.text());
    return server.calls.at(-1) ?? { url: undefined, headers: {} };
  }

  for (const path of ['chat/completions', 'messages']) {
    const [plain, named] = [await called(`/v1/${path}`, 'plain'), await called(`/v1/${path}`, 'named')];
    for (const { url, headers } of [plain, named]) {
      t.is(url, `/v1/${path}?api-version=2026-01-01`);
      t.is(headers['x-team'], 'a b');
    }
    t.deepEqual([plain.headers.authorization, plain.headers['x-api-key']], [`Bearer ${first}`, undefined]);
    t.deepEqual([named.headers.authorization, named.headers['x-api-key']], [undefined, first]);
  }

  const keyNow = async () => (await called('/v1/chat/completions', 'named')).headers['x-api-key'];
  await writeFile(`${file}.next`, second);
  await rename(`${file}.next`, file);
  while ((await keyNow()) === first) await sleep(100);
  t.is(await keyNow(), second);
  await rm(file);
  const worker = stack.workers[0]?.process;
  await worker?.line(({ msg }) => msg?.startsWith('the file of an API key cannot be used') === true);
  t.is(await keyNow(), second, 'the earlier key stays in use');
  for (const { logs, errors } of stack.started()) {
    const written = JSON.stringify(logs) + errors();
    for (const key of [first, second]) t.false(written.includes(key));
  }
});
