import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';

let stack: Stack;
let key: string;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, workers: 2 }));
  key = await stack.mintKey('alice');
});

test.after.always(() => parts.disposeAsync());

let keys = 0;
type Wishes = { ingress?: number; question?: string; signal?: AbortSignal; stream?: boolean; headers?: object };

function send(idempotencyKey: string, { ingress = 0, question = 'Who am I?', headers = {}, ...rest }: Wishes = {}) {
  const url = stack.ingresses[ingress]?.url ?? '';
  return chat({ url, key, question, headers: { 'idempotency-key': idempotencyKey, ...headers }, ...rest });
}

const calls = () => stack.modelServers.flatMap((server) => server.calls()).length;
async function used(): Promise<unknown> {
  const response = await fetch(`${stack.ingresses[0]?.url}/billing/quota`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return response.json();
}

/** Sends until the answer is not 409, as an SDK does. */
async function retried(idempotencyKey: string, wishes: Wishes = {}): Promise<Response> {
  for (;;) {
    const response = await send(idempotencyKey, wishes);
    if (response.status !== 409) return response;
    await response.text();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test.serial('a repeat gets the first answer byte for byte at any ingress, and is charged once', async (t) => {
  const name = `order ${keys++}`.replace(' ', '-');
  const first = await send(name);
  t.is(first.status, 200);
  t.is(first.headers.get('idempotent-replayed'), null);
  const bytes = Buffer.from(await first.arrayBuffer());
  const [called, charged] = [calls(), await used()];
  for (const ingress of [0, 1]) {
    const repeat = await send(name, { ingress });
    t.is(repeat.status, 200);
    t.deepEqual(Buffer.from(await repeat.arrayBuffer()), bytes);
    t.is(repeat.headers.get('idempotent-replayed'), 'true');
    t.is(repeat.headers.get('content-type'), first.headers.get('content-type'));
    t.is(repeat.headers.get('x-svc-original-request-id'), first.headers.get('x-request-id'));
    t.not(repeat.headers.get('x-request-id'), first.headers.get('x-request-id'));
  }
  t.is(calls(), called);
  t.deepEqual(await used(), charged);
});

test.serial('a repeat while the first runs is 409 with a short wait, and another body is 422', async (t) => {
  for (const server of stack.modelServers) server.fail({ latencyMs: 700, times: 1 });
  const name = `order-${keys++}`;
  const first = send(name);
  await Promise.any(stack.modelServers.map((server) => server.waitForCall(({ state }) => state === 'running')));
  const repeat = await send(name, { ingress: 1 });
  t.is(repeat.status, 409);
  t.like(await repeat.json(), { code: 'CONFLICT' });
  t.is(repeat.headers.get('retry-after'), '1');
  t.is(repeat.headers.get('x-should-retry'), 'true');
  const other = await send(name, { question: 'Another?' });
  t.is(other.status, 422);
  t.like(await other.json(), { code: 'IDEMPOTENCY_MISMATCH' });
  const text = await (await first).text();
  for (const server of stack.modelServers) server.heal();
  t.is(await (await retried(name)).text(), text);
  t.is((await send(name, { question: 'Another?' })).status, 422);
});

test.serial('fifty repeats at once over two ingresses make one call, and all get its answer', async (t) => {
  const name = `order-${keys++}`;
  const before = calls();
  const texts = await Promise.all(
    Array.from({ length: 50 }, async (_, index) => (await retried(name, { ingress: index % 2 })).text()),
  );
  t.is(calls(), before + 1);
  t.is(new Set(texts).size, 1);
});

test.serial('a client that leaves does not end its request: the next attempt gets the answer', async (t) => {
  for (const server of stack.modelServers) server.fail({ latencyMs: 500, times: 1 });
  const name = `order-${keys++}`;
  const before = calls();
  const leaving = new AbortController();
  const first = send(name, { signal: leaving.signal });
  await Promise.any(stack.modelServers.map((server) => server.waitForCall(({ state }) => state === 'running')));
  leaving.abort();
  await t.throwsAsync(first);
  const answer = await retried(name, { ingress: 1 });
  for (const server of stack.modelServers) server.heal();
  t.is(answer.status, 200);
  t.is(answer.headers.get('idempotent-replayed'), 'true');
  t.is(calls(), before + 1);
});

test.serial('a failure that charged nothing is not kept: the next attempt runs', async (t) => {
  const name = `order-${keys++}`;
  for (const server of stack.modelServers) server.fail({ status: 500 });
  t.is((await send(name, { headers: { 'x-stainless-retry-count': '0' } })).status, 503);
  for (const server of stack.modelServers) server.heal();
  t.is((await retried(name, { question: 'Something else?' })).status, 200);
});

test.serial('the header is refused on a stream, and in another form', async (t) => {
  for (const [name, stream] of [
    ['fine', true],
    ['with space', false],
    ['ü', false],
    ['x'.repeat(256), false],
  ] as const) {
    const response = await send(name, { stream });
    t.is(response.status, 400, name);
    t.like(await response.json(), { code: 'VALIDATION_ERROR' });
  }
  t.is((await send('x'.repeat(255))).status, 200);
});
