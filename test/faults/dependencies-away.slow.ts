import test from 'ava';
import { Redis } from 'ioredis';
import { startIdentityProvider } from '../stack/identity-provider.ts';
import { answerFor } from '../stack/model-server.ts';
import { oneBackend } from '../stack/plan.ts';
import { startServiceProcess } from '../stack/service-process.ts';
import { startStack } from '../stack/stack.ts';
import { chat, streamEvents, streamedText } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

/** Far above what is promised (a second), far below what a hang would be: no verdict on a noisy machine's speed. */
const neverAHangMs = 8_000;

const question = 'Still there?';
const expected = answerFor([{ role: 'user', content: question }]);

async function wholeText(response: Response): Promise<string> {
  const { choices } = (await response.json()) as { choices?: { message: { content: string } }[] }; // our own answer
  return choices?.[0]?.message.content ?? `no answer, but ${response.status}`;
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function statusOf(url: string): Promise<number> {
  return (await fetch(url)).status;
}

faultTest(
  test,
  {
    id: '24a',
    done: 'ingress and worker start while Redis is away',
    promised: 'they say so and wait, healthy and not ready, and work when it comes',
  },
  async (t, see) => {
    await using stack = await startStack({ ingresses: 0, workers: 0 });
    const { redis } = stack;
    if (redis === undefined) throw new Error('this stack has a Redis of its own');
    await redis.stop();
    const starting = [stack.startIngress(), stack.startWorker()] as const;
    const operations = await Promise.all(
      stack.started().map(async (child) => {
        const { port } = await child.line(({ msg }) => msg?.startsWith('operations') === true);
        await child.line(({ msg }) => msg?.startsWith('Redis cannot be reached') === true);
        return `http://127.0.0.1:${port}`;
      }),
    );
    for (const url of operations) {
      t.is(await statusOf(`${url}/healthz`), 200);
      t.is(await statusOf(`${url}/readyz`), 503);
    }

    await redis.restart();
    const [ingress] = await Promise.all(starting);
    for (const url of operations) t.is(await statusOf(`${url}/readyz`), 200);
    t.is(await wholeText(await chat({ url: ingress.url, key: await stack.mintKey('alice'), question })), expected);
    see('2 of 2 processes waited, healthy and not ready, and worked when it came');
  },
);

faultTest(
  test,
  {
    id: '22a',
    done: 'an ingress starts while the identity provider is away',
    promised: 'signing in is 503 and never 401; keys go on working; it recovers',
  },
  async (t, see) => {
    await using stack = await startStack();
    const { identity, directory, baseUrl } = stack;
    const key = await stack.mintKey('alice');
    const token = await identity.token('bob');
    await identity[Symbol.asyncDispose]();
    const ingress = await stack.startIngress(); // one that has never seen the issuer's keys
    const mint = () =>
      fetch(`${ingress.url}/v1/keys/developer`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: '{}',
      });

    const refused = await mint();
    t.is(refused.status, 503);
    t.truthy(refused.headers.get('retry-after'));
    t.like(await refused.json(), { code: 'SERVICE_UNAVAILABLE' });
    t.is(await statusOf(`${ingress.operationsUrl}/readyz`), 200, 'its absence takes no ingress out');
    t.is(await wholeText(await chat({ url: ingress.url, key, question })), expected);

    const dataDirectory = `${directory}/identity`;
    await using _back = await startIdentityProvider({ audience: baseUrl, port: identity.port, dataDirectory });
    t.is((await mint()).status, 200);
    see('1 sign-in told by 503, and 200 when it was there; 1 of 1 request with a key answered');
  },
);

test('a frozen Redis is a 503 with Retry-After and no hang, and is used again when it goes on', async (t) => {
  await using stack = await startStack();
  const { redis } = stack;
  if (redis === undefined) throw new Error('this stack has a Redis of its own');
  const url = stack.ingresses[0]?.url ?? '';
  const key = await stack.mintKey('alice');
  t.is(await wholeText(await chat({ url, key, question })), expected);

  await redis.kill('SIGSTOP');
  const startedAt = performance.now();
  const refused = await chat({ url, key, question });
  t.true(performance.now() - startedAt < neverAHangMs);
  t.is(refused.status, 503);
  t.truthy(refused.headers.get('retry-after'));
  t.like(await refused.json(), { code: 'SERVICE_UNAVAILABLE' });
  t.is(await statusOf(`${stack.ingresses[0]?.operationsUrl}/readyz`), 503);

  await redis.kill('SIGCONT');
  await until(async () => (await statusOf(`${stack.ingresses[0]?.operationsUrl}/readyz`)) === 200);
  t.is(await wholeText(await chat({ url, key, question })), expected);
});

test('a Redis that is killed and comes back: who waits is answered, once and whole', async (t) => {
  await using stack = await startStack({ models: oneBackend, workers: 2 });
  const { redis } = stack;
  if (redis === undefined) throw new Error('this stack has a Redis of its own');
  const url = stack.ingresses[0]?.url ?? '';
  const key = await stack.mintKey('alice');
  const [server] = stack.modelServers;
  server.fail({ latencyMs: 1_500, chunkMs: 20 });
  const waiting = Array.from({ length: 20 }, (_, index) => chat({ url, key, question, stream: index % 2 === 0 }));
  await server.waitForCall(({ state }) => state === 'running');
  while (server.calls().length < waiting.length) await new Promise((resolve) => setTimeout(resolve, 5));

  await redis.kill('SIGKILL');
  const refused = await chat({ url, key, question });
  t.is(refused.status, 503);
  await redis.restart();

  for (const [index, response] of (await Promise.all(waiting)).entries()) {
    t.is(response.status, 200);
    const text = index % 2 === 0 ? streamedText(await response.text()) : await wholeText(response);
    t.is(text, expected);
  }
  t.is(server.calls().length, waiting.length, 'no job was run twice');
  server.heal();
  t.is(await wholeText(await chat({ url, key, question })), expected);
});

faultTest(
  test,
  {
    id: '11',
    done: 'Redis is out of memory',
    promised:
      'what is in flight is answered; new requests are 503 at once; keys are minted and revoked; relief is all it takes',
  },
  async (t, see) => {
    await using stack = await startStack({ models: oneBackend });
    await using witnesses = await openWitnesses(stack);
    const url = stack.ingresses[0]?.url ?? '';
    const key = await stack.mintKey('alice');
    const [server] = stack.modelServers;
    const redis = new Redis(stack.redisUrl);
    t.teardown(() => redis.disconnect());
    server.fail({ latencyMs: 1_000 });
    const inFlight = [false, true].map((stream) => chat({ url, key, question, stream }));
    while (server.calls().length < inFlight.length) await new Promise((resolve) => setTimeout(resolve, 5));

    await redis.config('SET', 'maxmemory', '1mb');
    const refused = await chat({ url, key, question });
    t.is(refused.status, 503);
    t.truthy(refused.headers.get('retry-after'));
    const keys = createKeyClient(stack);
    const leaked = await keys.newKey('dora');
    t.is((await keys.models(leaked)).status, 200);
    t.is((await keys.revoke('dora', leaked)).status, 200);
    t.is((await keys.models(leaked)).status, 401);
    const [whole, streamed] = await Promise.all(inFlight);
    t.is(await wholeText(whole as Response), expected);
    t.is(streamedText((await streamed?.text()) ?? ''), expected);

    await redis.config('SET', 'maxmemory', '0');
    redis.disconnect();
    server.heal();
    t.is(await wholeText(await chat({ url, key, question })), expected);
    see('2 of 2 in flight answered; 1 of 1 new request 503; a key was minted and revoked meanwhile');
    const { records } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, 0 contradictions`);
  },
);

faultTest(
  test,
  {
    id: '19a',
    done: 'no worker takes a request within queue_ms',
    promised: '503, and no backend is ever called for it',
  },
  async (t, see) => {
    await using stack = await startStack({ workers: 0, timeouts: { queue_ms: 300 } });
    const url = stack.ingresses[0]?.url ?? '';
    const key = await stack.mintKey('alice');
    const [whole, streamed] = await Promise.all([
      chat({ url, key, question }),
      chat({ url, key, question, stream: true }),
    ]);
    for (const response of [whole, streamed]) {
      t.is(response.status, 503);
      t.like(await response.json(), { code: 'SERVICE_UNAVAILABLE' });
    }
    await stack.startWorker();
    t.is(
      await wholeText(await chat({ url, key, question: 'afterwards' })),
      answerFor([{ role: 'user', content: 'afterwards' }]),
    );
    const calls = stack.modelServers.flatMap((server) => server.calls());
    t.is(calls.length, 1);
    see('2 of 2 told by 503; 0 backend calls for them');
  },
);

faultTest(
  test,
  {
    id: '19b',
    done: 'a backend is not done within request_ms',
    promised: '504, or an error frame; the backend call is called off',
  },
  async (t, see) => {
    await using stack = await startStack({ models: oneBackend, timeouts: { request_ms: 4_000 } });
    const url = stack.ingresses[0]?.url ?? '';
    const key = await stack.mintKey('alice');
    const [server] = stack.modelServers;
    server.fail({ endless: true, chunkMs: 20, times: 1 });
    const streamed = streamEvents(await (await chat({ url, key, question, stream: true })).text());
    const last = streamed.at(-1);
    t.true(last !== '[DONE]' && last?.error?.code === 'DEADLINE_EXCEEDED');

    server.fail({ hang: true, times: 1 });
    const whole = await chat({ url, key, question });
    t.is(whole.status, 504);
    t.like(await whole.json(), { code: 'DEADLINE_EXCEEDED' });
    for (const { id } of server.calls())
      t.is((await server.waitForCall((call) => call.id === id && call.state !== 'running')).state, 'aborted');
    see('1 stream ended by an error frame, 1 whole answer by 504; 2 of 2 calls called off');
  },
);

test('a Redis that may evict what it was given is refused at the start, in one sentence', async (t) => {
  await using stack = await startStack({ ingresses: 0, workers: 0 });
  const redis = new Redis(stack.redisUrl);
  await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
  redis.disconnect();
  for (const start of [stack.startIngress, stack.startWorker]) {
    await t.throwsAsync(start(), { message: /maxmemory-policy allkeys-lru; it must be noeviction/ });
  }
});

test('a process without its settings names every one that is missing, and ends', async (t) => {
  const ingress = startServiceProcess({ side: 'ingress', env: {} });
  t.is(await ingress.exited, 1);
  for (const name of ['REDIS_URL', 'DATABASE_URL', 'PLAN_FILE', 'BASE_URL', 'AUTH_URL', 'KEY_PEPPER']) {
    t.regex(ingress.errors(), new RegExp(`${name}: is required`));
  }
});
