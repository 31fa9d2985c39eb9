import test from 'ava';
import { Redis } from 'ioredis';
import { answerFor } from '../stack/model-server.ts';
import { oneBackend } from '../stack/plan.ts';
import { startServiceProcess } from '../stack/service-process.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat, streamEvents, streamedText, wholeText } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { changeTimeouts } from '../support/plan-file-editor.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const question = 'Still there?';
const expected = answerFor([{ role: 'user', content: question }]);

async function timed(send: () => Promise<Response>): Promise<{ response: Response; tookMs: number }> {
  const sentAt = performance.now();
  const response = await send();
  return { response, tookMs: Math.round(performance.now() - sentAt) };
}

const callsOf = (stack: Stack) => stack.modelServers.reduce((sum, server) => sum + server.calls().length, 0);

async function statusOf(url: string): Promise<number> {
  return (await fetch(url)).status;
}

const queueMs = 2_000;
/** Long enough for a busy machine to call the backend before. */
const requestMs = 8_000;
const parts = new AsyncDisposableStack();
/** Starts without a process. Each of its tests continues with the processes that the previous one started. */
let empty: Stack;
/** Has a backend and two workers. */
let busy: Stack;

test.before(async () => {
  empty = parts.use(await startStack({ models: oneBackend, ingresses: 0, workers: 0 }));
  busy = parts.use(await startStack({ models: oneBackend, workers: 2, timeouts: { queue_ms: 300_000 } }));
});
test.after.always(() => parts.disposeAsync());

test.serial('a Redis that may evict data is refused at the start, in one sentence', async (t) => {
  const redis = new Redis(empty.redisUrl);
  t.teardown(() => redis.disconnect());
  await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
  for (const start of [empty.startIngress, empty.startWorker]) {
    await t.throwsAsync(start(), { message: /maxmemory-policy allkeys-lru; it must be noeviction/ });
  }
  await redis.config('SET', 'maxmemory-policy', 'noeviction');
});

faultTest(
  test.serial,
  {
    id: '24a',
    done: 'ingress and worker start while Redis is unreachable',
    promised: 'they log it and wait, live but not ready, and work when Redis is reachable',
  },
  async (t, see) => {
    const stack = empty;
    const { redis } = stack;
    if (redis === undefined) throw new Error('this stack has its own Redis');
    await redis.stop();
    const before = stack.started().length;
    const starting = [stack.startIngress(), stack.startWorker()] as const;
    const started = stack.started().slice(before);
    const operations = await Promise.all(
      started.map(async (child) => {
        const { port } = await child.line(({ msg }) => msg?.startsWith('operations') === true);
        await child.line(({ msg }) => msg?.includes('cannot be reached') === true);
        return `http://127.0.0.1:${port}`;
      }),
    );
    const duringOutage: number[][] = [];
    for (const url of operations)
      duringOutage.push([await statusOf(`${url}/healthz`), await statusOf(`${url}/readyz`)]);
    t.deepEqual(duringOutage, Array(2).fill([200, 503]));

    await redis.restart();
    const [ingress] = await Promise.all(starting);
    const afterwards = await Promise.all(operations.map((url) => statusOf(`${url}/readyz`)));
    t.deepEqual(afterwards, [200, 200]);
    const answer = await chat({ url: ingress.url, key: await stack.mintKey('alice'), question });
    t.is(await wholeText(answer), expected);
    see(`/healthz and /readyz of each process: ${duringOutage.map((pair) => pair.join(' and ')).join('; ')}`);
    see(`once reachable: /readyz ${afterwards.join(' and ')}, a request ${answer.status}`);
  },
);

faultTest(
  test.serial,
  {
    id: '11',
    done: 'Redis is out of memory',
    promised:
      'requests in flight are answered; new requests get 503 immediately; keys are minted and revoked; freed memory is enough to recover',
  },
  async (t, see) => {
    const stack = busy;
    await using witnesses = await openWitnesses(stack);
    const url = stack.ingresses[0]?.url ?? '';
    const key = await stack.mintKey('erin');
    const [server] = stack.modelServers;
    const redis = new Redis(stack.redisUrl);
    t.teardown(() => redis.disconnect());
    const before = server.calls().length;
    server.fail({ untilHealed: true });
    const inFlight = [false, true].map((stream) => chat({ url, key, question, stream }));
    while (server.calls().length < before + inFlight.length) await new Promise((resolve) => setTimeout(resolve, 5));

    await redis.config('SET', 'maxmemory', '1mb');
    // It does not wait for `queue_ms`, nor for the requests in flight, which are held.
    const { response: refused, tookMs } = await timed(() =>
      chat({ url, key, question, signal: AbortSignal.timeout(30_000) }),
    );
    t.is(refused.status, 503);
    t.truthy(refused.headers.get('retry-after'));
    const keys = createKeyClient(stack);
    const leaked = await keys.newKey('dora');
    const minted = await keys.models(leaked);
    t.is(minted.status, 200);
    t.is((await keys.revoke('dora', leaked)).status, 200);
    const revoked = await keys.models(leaked);
    t.is(revoked.status, 401);
    server.heal();
    const [whole, streamed] = await Promise.all(inFlight);
    const texts = [await wholeText(whole as Response), streamedText((await streamed?.text()) ?? '')];
    t.deepEqual(texts, [expected, expected]);
    t.is(server.calls().length, before + inFlight.length, 'no backend is called for a refused request');

    await redis.config('SET', 'maxmemory', '0');
    redis.disconnect();
    t.is(await wholeText(await chat({ url, key, question })), expected);
    const answered = texts.filter((text) => text === expected).length;
    see(`${answered} of ${inFlight.length} in flight answered; a new request: ${refused.status} after ${tookMs} ms`);
    see(`a minted key: ${minted.status}, and revoked: ${revoked.status}`);
    const { records, contradictions } = await witnesses.agreeOn(t, []);
    see(`${records.size} records, ${contradictions.length} contradictions`);
  },
);

test.serial('Redis is killed and comes back: waiting requests are answered, once and completely', async (t) => {
  const stack = busy;
  const { redis } = stack;
  if (redis === undefined) throw new Error('this stack has its own Redis');
  const url = stack.ingresses[0]?.url ?? '';
  const key = await stack.mintKey('alice');
  const [server] = stack.modelServers;
  const before = server.calls().length;
  server.fail({ untilHealed: true });
  const waiting = Array.from({ length: 20 }, (_, index) => chat({ url, key, question, stream: index % 2 === 0 }));
  await server.waitForCall(({ state }) => state === 'running');
  while (server.calls().length < before + waiting.length) await new Promise((resolve) => setTimeout(resolve, 5));

  await redis.kill('SIGKILL');
  const refused = await chat({ url, key, question });
  t.is(refused.status, 503);
  server.fail({ chunkMs: 20 }); // which also lets the held calls go on
  await redis.restart();

  for (const [index, response] of (await Promise.all(waiting)).entries()) {
    t.is(response.status, 200);
    const text = index % 2 === 0 ? streamedText(await response.text()) : await wholeText(response);
    t.is(text, expected);
  }
  t.is(server.calls().length, before + waiting.length, 'no job was run twice');
  server.heal();
  t.is(await wholeText(await chat({ url, key, question })), expected);
});

faultTest(
  test.serial,
  {
    id: '19a',
    done: 'no worker takes a request within queue_ms',
    promised: '503, and no backend is ever called for it',
  },
  async (t, see) => {
    const stack = empty;
    const before = callsOf(stack);
    for (const { process } of stack.workers.splice(0)) await process.stop();
    const url = stack.ingresses[0]?.url ?? '';
    const key = await stack.mintKey('bob');
    await changeTimeouts(stack, { queue_ms: queueMs });
    const refused = await Promise.all([false, true].map((stream) => timed(() => chat({ url, key, question, stream }))));
    for (const { response, tookMs } of refused) {
      t.is(response.status, 503);
      t.like(await response.json(), { code: 'SERVICE_UNAVAILABLE' });
      t.true(tookMs > queueMs - 50, `${tookMs} ms`);
    }
    await stack.startWorker();
    await changeTimeouts(stack, { queue_ms: 30_000 });
    t.is(
      await wholeText(await chat({ url, key, question: 'afterwards' })),
      answerFor([{ role: 'user', content: 'afterwards' }]),
    );
    const calls = callsOf(stack) - before;
    t.is(calls, 1);
    const seen = refused.map(({ response, tookMs }) => `${response.status} after ${tookMs} ms`);
    see(`queue_ms ${queueMs}: ${seen.join(', ')}; ${calls - 1} backend calls for them`);
  },
);

faultTest(
  test.serial,
  {
    id: '19b',
    done: 'a backend does not finish within request_ms',
    promised: '504, or an error frame; the backend call is cancelled',
  },
  async (t, see) => {
    const stack = empty;
    const url = stack.ingresses[0]?.url ?? '';
    const key = await stack.mintKey('carol');
    const [server] = stack.modelServers;
    const before = server.calls().length;
    await changeTimeouts(stack, { request_ms: requestMs });
    server.fail({ endless: true, chunkMs: 20 });
    const [stream, whole] = await Promise.all([true, false].map((stream) => chat({ url, key, question, stream })));
    if (stream === undefined || whole === undefined) return t.fail();
    const last = streamEvents(await stream.text()).at(-1);
    if (last === undefined || last === '[DONE]') return t.fail(`the stream ended with ${last}`);
    t.is(last.error?.code, 'DEADLINE_EXCEEDED');
    t.is(whole.status, 504);
    t.like(await whole.json(), { code: 'DEADLINE_EXCEEDED' });
    const states: string[] = [];
    for (const { id } of server.calls().slice(before))
      states.push((await server.waitForCall((call) => call.id === id && call.state !== 'running')).state);
    t.deepEqual(states, ['aborted', 'aborted']);
    see(`a stream: ${last.error?.code}; a complete response: ${whole.status}; their calls: ${states.join(', ')}`);
  },
);

test('a process without its settings names every missing one, and exits', async (t) => {
  const ingress = startServiceProcess({ side: 'ingress', env: {} });
  t.is(await ingress.exited, 1);
  for (const name of ['REDIS_URL', 'DATABASE_URL', 'PLAN_FILE', 'BASE_URL', 'AUTH_URL', 'KEY_PEPPER']) {
    t.regex(ingress.errors(), new RegExp(`${name}: is required`));
  }
});
