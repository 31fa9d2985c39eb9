import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import OpenAI, { InternalServerError } from 'openai';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { watchRedis } from '../support/watch-redis.ts';

const depthMax = 5;
const crowdSize = 100;

const parts = new AsyncDisposableStack();
/** An ingress whose queue holds a few jobs. No worker takes them unless a test starts one. */
let full: Stack;

test.before(async () => {
  full = parts.use(await startFullService({ QUEUE_DEPTH_MAX: String(depthMax) }));
});
test.after.always(() => parts.disposeAsync());

function startFullService(env: Record<string, string>): Promise<Stack> {
  // Requests may still be waiting when a test ends.
  return startStack({ workers: 0, timeouts: { queue_ms: 60_000 }, env: { SHUTDOWN_GRACE_MS: '500', ...env } });
}

/** An account without limits. Its requests and its worker end with the test. */
async function openAccount(t: ExecutionContext, stack: Stack, account: string) {
  const keys = createKeyClient(stack);
  const key = await keys.newKey(account);
  await keys.change(`user:${account}`, { plan: 'pro' });
  const url = stack.ingresses[0]?.url ?? '';
  const leaving = new AbortController();
  t.teardown(async () => {
    leaving.abort();
    // If its client leaves at the moment a worker returns the job to the queue, the job would wait for another worker.
    if (stack.workers.length > 0) await metric(stack, depthIs(0));
    for (const { process } of stack.workers.splice(0)) await process.stop();
  });
  /** Waits for its response until `signal` aborts. */
  const ask = (question = 'Hello', model = 'small-chat', signal = leaving.signal) =>
    chat({ url, key, question, model, signal });
  /** Uses another account each time, so that none exceeds its share. */
  const crowd = await Promise.all(Array.from({ length: crowdSize }, (_, index) => keys.newKey(`${account}${index}`)));
  let asked = 0;
  const askAsOther: typeof ask = (question = 'Hello', model = 'small-chat', signal = leaving.signal) =>
    chat({ url, key: crowd[asked++ % crowdSize] ?? '', question, model, signal });
  await metric(stack, depthIs(0));
  return { keys, key, url, ask, askAsOther, leaving };
}

/** Waits for a metric of the first ingress. */
async function metric(stack: Stack, line: RegExp): Promise<void> {
  const [ingress] = stack.ingresses;
  if (ingress !== undefined) await awaitMetric(ingress, line);
}

const depthIs = (jobs: number) =>
  new RegExp(`^svc_queue_depth\\{pool="default",model="small-chat",lane="interactive"\\} ${jobs}$`, 'm');

faultTest(
  test.serial,
  {
    id: '18f',
    done: "a model's queue is full",
    promised:
      'immediate 503 SERVICE_UNAVAILABLE, nothing charged, Retry-After spread over 1 to 5 s; waiting requests are served in the end',
  },
  async (t, see) => {
    const stack = full;
    const { keys, key, url, ask, askAsOther } = await openAccount(t, stack, 'alice');
    let { answers, refused } = await sendCrowd(askAsOther);
    let refusals = refused.length;
    for (let crowds = 1; crowds < 3 && refused.length !== answers.length - depthMax; crowds += 1) {
      t.log(`${refused.length} were refused: on a busy machine the depth may be unknown for a moment`);
      await metric(stack, depthIs(0));
      ({ answers, refused } = await sendCrowd(askAsOther));
      refusals += refused.length;
    }
    t.is(refused.length, answers.length - depthMax, 'exactly `depthMax` requests wait');
    await metric(stack, depthIs(depthMax));

    const waits = new Set<string | null>();
    for (const response of refused) {
      t.is(response.status, 503);
      const seconds = Number(response.headers.get('retry-after'));
      const milliseconds = Number(response.headers.get('retry-after-ms'));
      t.true(seconds >= 1 && seconds <= 5 && milliseconds <= seconds * 1_000);
      waits.add(response.headers.get('retry-after-ms'));
      t.false([...response.headers.keys()].some((name) => /quota|ratelimit/.test(name)));
      t.deepEqual(await response.json(), {
        error: 'The service is overloaded: its queue is full. Retry later.',
        code: 'SERVICE_UNAVAILABLE',
      });
    }
    t.true(waits.size > 10, 'their retries are spread over time');

    // It is refused without a call to Redis for its account. How far others used their limits is written from time to time.
    await using watch = await watchRedis(stack.redisUrl);
    const asked = await watch.during(async () => t.is((await ask('one more')).status, 503));
    t.deepEqual(
      asked.filter((command) => command.some((argument) => /^svc:\{p\d\d\}:.*:user:alice$/.test(argument))),
      [],
    );
    const invalid = await keys.send('POST', '/v1/chat/completions', { bearer: key, body: { model: 'small-chat' } });
    t.is(invalid.status, 400, 'an invalid request gets 400 before the queue is checked');
    t.truthy(invalid.headers.get('x-svc-quota-limit'));
    const refusalsMetric = `^svc_queue_refusals_total\\{pool="default",model="small-chat",endpoint="/v1/chat/completions",reason="jobs"\\} ${refusals + 1}$`;
    await metric(stack, new RegExp(refusalsMetric, 'm'));

    const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0, fetch: documentedFetch });
    const sdk = client.chat.completions.create({ model: 'small-chat', messages: [{ role: 'user', content: 'Hi' }] });
    await t.throwsAsync(sdk, { instanceOf: InternalServerError, message: /overloaded/ });

    await stack.startWorker({ POOLS: 'default' });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    t.is(statuses.filter((status) => status === 200).length, depthMax);
    await metric(stack, depthIs(0));
    t.is((await ask('after all')).status, 200);
    t.is(stack.modelServers.flatMap((server) => server.calls()).length, depthMax + 1);
    await metric(stack, /^svc_queue_bytes_waiting 0$/m);
    see(
      `${answers.length - depthMax} of ${answers.length} got 503, with ${waits.size} different waits; ${depthMax} of ${depthMax} served`,
    );
  },
);

type Ask = Awaited<ReturnType<typeof openAccount>>['ask'];

/** Sends a hundred requests at once. If not exactly `depthMax` of them wait after some seconds, the waiting ones disconnect. */
async function sendCrowd(ask: Ask): Promise<{ answers: Promise<Response>[]; refused: Response[] }> {
  const leaving = new AbortController();
  const refused: Response[] = [];
  const answers = Array.from({ length: crowdSize }, (_, index) =>
    ask(`Question ${index}`, 'small-chat', leaving.signal),
  );
  const isRefused = answers.map((answer) => answer.then((response) => refused.push(response)));
  const until = performance.now() + 30_000;
  while (refused.length < answers.length - depthMax && performance.now() < until) await sleep(20);
  if (refused.length !== answers.length - depthMax) {
    leaving.abort();
    await Promise.allSettled(isRefused);
  }
  return { answers, refused: [...refused] };
}

/** Retries requests that were refused because of requests that waited a moment ago. */
async function fill(stack: Stack, ask: Ask): Promise<void> {
  const untilItWaits = async () => {
    while ((await ask()).status !== 200) await sleep(50);
  };
  for (let index = 0; index < depthMax; index++) void untilItWaits().catch(() => {}); // until the client disconnects
  await metric(stack, depthIs(depthMax));
}

test.serial('a full queue does not affect another model of its pool', async (t) => {
  const stack = full;
  const { ask, askAsOther } = await openAccount(t, stack, 'bob');
  await fill(stack, askAsOther);
  t.is((await ask()).status, 503);
  const other = ask('Hello', 'medium-chat');
  await metric(stack, /^svc_queue_depth\{pool="default",model="medium-chat",lane="interactive"\} 1$/m);
  await stack.startWorker({ POOLS: 'default' });
  t.is((await other).status, 200);
});

faultTest(
  test.serial,
  {
    id: '18g',
    done: 'an ingress has no room left for waiting payloads',
    promised: '503 SERVICE_UNAVAILABLE; the room is free again when their clients disconnect',
  },
  async (t, see) => {
    await using stack = await startFullService({ QUEUE_BYTES_MAX: '10000' });
    const { ask, askAsOther, leaving, keys, key } = await openAccount(t, stack, 'alice');
    const waiting = [1, 2, 3].map(() => askAsOther('x'.repeat(3_000)).catch(() => undefined));
    await metric(stack, depthIs(3));
    await metric(stack, /^svc_queue_bytes_waiting 9\d\d\d$/m);
    const refused = await ask('x'.repeat(3_000));
    t.is(refused.status, 503);
    t.like(await refused.json(), { code: 'SERVICE_UNAVAILABLE' });
    await metric(
      stack,
      /^svc_queue_refusals_total\{pool="default",model="small-chat",endpoint="\/v1\/chat\/completions",reason="bytes"\} 1$/m,
    );

    // Refused at admission: its bytes are released as well.
    t.is((await keys.change('user:alice', { suspended: true })).status, 200);
    t.is((await keys.infer(key)).status, 403);
    t.is((await keys.change('user:alice', { suspended: false })).status, 200);
    await metric(stack, /^svc_queue_bytes_waiting 9\d\d\d$/m);

    leaving.abort();
    await Promise.all(waiting);
    await metric(stack, /^svc_queue_bytes_waiting 0$/m);
    await metric(stack, depthIs(0));
    see('3 of 3 waited in 10,000 bytes, 1 of 1 more got 503');
  },
);

test.serial(
  'one account does not fill a queue: in a half-full queue it may have a quarter of the queue at once, and others are served',
  async (t) => {
    await using stack = await startFullService({ QUEUE_DEPTH_MAX: '8' });
    const { ask, askAsOther, leaving } = await openAccount(t, stack, 'eve');
    const waiting = [];
    for (let index = 1; index <= 5; index += 1) {
      waiting.push(ask().catch(() => undefined));
      await metric(stack, depthIs(index));
    }
    const refused = await ask();
    t.is(refused.status, 429);
    t.deepEqual(
      ['retry-after', 'retry-after-ms'].map((name) => refused.headers.get(name)),
      ['1', '1000'],
    );
    t.truthy(refused.headers.get('x-svc-quota-limit'));
    const { error } = (await refused.json()) as { error: Record<string, unknown> };
    t.like(error, { code: 'rate_limit_exceeded', type: 'concurrency_limit', retry_after_ms: 1_000 });
    t.regex(String(error.message), /busy/);
    waiting.push(...[1, 2, 3].map(() => askAsOther().catch(() => undefined)));
    await metric(stack, depthIs(8));
    t.is((await ask()).status, 503, 'full for all');
    leaving.abort();
    await Promise.all(waiting);
  },
);

test.serial('jobs of other ingresses count', async (t) => {
  const stack = full;
  const { askAsOther, key } = await openAccount(t, stack, 'carol');
  await fill(stack, askAsOther);
  const { url } = await stack.startIngress();
  t.is((await chat({ url, key, question: 'Hi' })).status, 503);
});

// The last test, because it stops Redis.
test.serial('an unknown depth delays no request: while Redis is unavailable, admission refuses', async (t) => {
  const stack = full;
  const { ask, askAsOther } = await openAccount(t, stack, 'dora');
  await fill(stack, askAsOther);
  t.regex(((await (await ask()).json()) as { error: string }).error, /queue is full/);
  await stack.redis?.stop();
  // Within a second the depth becomes unknown. The test's own timeout ends the wait.
  let message = '';
  while (!message.includes('not available right now')) {
    await sleep(50);
    const answer = await ask();
    t.is(answer.status, 503);
    message = ((await answer.json()) as { error: string }).error;
  }
});
