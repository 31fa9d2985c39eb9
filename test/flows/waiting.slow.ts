import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';

const queueMs = 5_000;
const parts = new AsyncDisposableStack();
let stack: Stack;
let key: string;

test.before(async () => {
  const ofPool = (backend: string) => ({ tier: 'guest', pool: 'default', backends: [backend] });
  stack = parts.use(
    await startStack({
      timeouts: { queue_ms: queueMs },
      models: { narrow: ofPool('onprem-a'), wide: ofPool('onprem-b') },
      backends: { 'onprem-a': { requests_at_once: 1 } },
    }),
  );
  key = await stack.mintKey('alice');
});

test.after.always(() => parts.disposeAsync());

const ask = (model: string, stream = false) =>
  chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'Hello', model, stream });
const queuedMs = (response: Response) => Number(response.headers.get('x-svc-queue-ms') ?? Number.NaN);

async function isHeld(): Promise<void> {
  await stack.modelServers[0].waitForCall(({ state }) => state === 'running');
}

test.serial(
  'requests wait for a model at capacity, others are answered meanwhile, and responses report the wait',
  async (t) => {
    stack.modelServers[0].fail({ untilHealed: true }, 'narrow');
    const first = ask('narrow');
    await isHeld();
    const waiting = [ask('narrow'), ask('narrow', true)];
    const other = await ask('wide');
    t.is(other.status, 200);
    const [ingress] = stack.ingresses;
    if (ingress === undefined) return t.fail();
    await awaitMetric(ingress, /^svc_queue_depth\{pool="default",model="narrow",lane="interactive"\} 2$/m);
    stack.modelServers[0].heal('narrow');
    const ended = await Promise.all([first, ...waiting]);
    t.deepEqual(
      ended.map(({ status }) => status),
      [200, 200, 200],
    );
    for (const response of await Promise.all(waiting)) t.true(queuedMs(response) > 0, `${queuedMs(response)} ms`);
    t.true(Number.isInteger(queuedMs(other)));
    await Promise.all(ended.map((response) => response.text()));
  },
);

test.serial('a request that has waited for queue_ms gets 503 that says so, and delays no other model', async (t) => {
  stack.modelServers[0].fail({ hang: true, times: 1 }, 'narrow');
  const held = ask('narrow');
  await isHeld();
  const [late, other] = await Promise.all([ask('narrow'), ask('wide')]);
  t.is(late.status, 503);
  t.like(await late.json(), { code: 'SERVICE_UNAVAILABLE', error: 'The request waited too long in the queue.' });
  t.true(queuedMs(late) >= queueMs, `${queuedMs(late)} ms`);
  t.truthy(late.headers.get('retry-after'));
  t.is(other.status, 200);
  t.is(stack.modelServers[0].calls().filter(({ state }) => state === 'running').length, 1);
  void held.catch(() => {});
});
