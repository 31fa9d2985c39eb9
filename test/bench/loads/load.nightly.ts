import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { questionFor } from '../gateways/gateway.ts';
import { bareProxy, startModelServer } from '../gateways/places.ts';
import { generate, type Load, loads } from './load.ts';

async function startProxy(parts: AsyncDisposableStack) {
  const directory = await mkdtemp(join(tmpdir(), 'inference-bench-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const modelServer = parts.use(await startModelServer(directory));
  return { modelServer, proxy: parts.use(await bareProxy({ directory, modelServer })) };
}

const loadOf = (kind: Load['kind']) => loads.find((load) => load.kind === kind)?.fields ?? {};

test('streams are passed on as they arrive: each token is timed, and none waits for another', async (t) => {
  await using parts = new AsyncDisposableStack();
  const { modelServer, proxy } = await startProxy(parts);
  const question = questionFor(proxy, loadOf('streams'));
  const { answered, failed, p50Ms, stream } = await generate({ kind: 'streams', clients: 2, seconds: 0.1, question });
  t.deepEqual([answered, failed], [2, 0]);
  t.true(p50Ms > 2_900, 'it took as long as the model server');
  t.true((stream?.firstTokenP50Ms ?? 0) < 1_500, 'and did not start at its end');
  t.true(Math.abs((stream?.betweenP50Ms ?? 0) - 50) < 25);
  t.true((stream?.lateP50Ms ?? -1) > 0, 'by a clock that both share');
  t.deepEqual(
    (await modelServer.calls()).map(({ tokens }) => tokens),
    [70, 70],
    'the model server has counted 60 tokens and the prompt',
  );
});

test('a stream with fewer tokens than requested has failed, and so has a load of such streams only', async (t) => {
  await using parts = new AsyncDisposableStack();
  const { proxy } = await startProxy(parts);
  const fields = { stream: true, messages: [{ role: 'user', content: 'Say 2 tokens, 20 a second.' }] };
  const question = questionFor(proxy, fields);
  const error = await t.throwsAsync(generate({ kind: 'streams', clients: 1, seconds: 0.1, question }));
  t.regex(error?.message ?? '', /none was answered/);
});

for (const kind of ['one', 'many'] as const) {
  test(`whole answers are counted as the model server counts them (${kind})`, async (t) => {
    await using parts = new AsyncDisposableStack();
    const { modelServer, proxy } = await startProxy(parts);
    const clients = kind === 'one' ? 1 : 4;
    const question = questionFor(proxy, loadOf(kind));
    const { answered, failed, seconds, generatorCpuSeconds } = await generate({ kind, clients, seconds: 1, question });
    const calls = (await modelServer.calls()).length;
    t.is(failed, 0);
    t.true(calls >= answered && calls <= answered + clients, 'except those that were cut off at the end');
    t.true(seconds >= 0.9);
    t.true(generatorCpuSeconds > 0);
    await modelServer.forgetCalls();
    t.is((await modelServer.calls()).length, 0);
  });
}

for (const kind of ['one', 'many'] as const) {
  test(`several models are called in turn (${kind})`, async (t) => {
    await using parts = new AsyncDisposableStack();
    const { proxy } = await startProxy(parts);
    const models = ['a', 'b', 'c'];
    const { bodies } = questionFor(proxy, loadOf(kind), models);
    const seen: string[] = [];
    const server = createServer((req, res) => {
      void text(req).then((body) => {
        seen.push(body);
        res.end('{}');
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    parts.defer(() => void server.closeAllConnections());
    parts.defer(() => void server.close());
    const { port } = server.address() as AddressInfo; // of a server that listens on a port
    const question = { urls: [`http://127.0.0.1:${port}/`], headers: {}, bodies };
    await generate({ kind, clients: 1, seconds: 1, question });
    t.deepEqual(
      seen.slice(0, 4).map((body) => (JSON.parse(body) as { model: string }).model), // our own body
      ['a', 'b', 'c', 'a'],
    );
  });
}
