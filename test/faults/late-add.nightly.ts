import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { Redis } from 'ioredis';
import { Agent } from 'undici';
import { openStore } from '../../shared/process/open-store.ts';
import { oneBackend } from '../stack/plan.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import { contradictionsIn } from '../support/truth/contradictions.ts';
import { followOutboxes } from '../support/truth/follow-outboxes.ts';
import { type Books, openBooks } from '../support/truth/open-books.ts';

const batch = 25;
const batchesMax = 16;
const timeouts = { queue_ms: 5_000, request_ms: 20_000 };
const question = 'Is it too late?';

/** The description of an admitted request in case it is lost. Nothing else that an ingress sends contains it. */
const admissions = { text: '"outcome":"lost"', count: batch };
/** Only a job contains the question. */
const jobs = { text: question, count: batch };

type Scene = AsyncDisposable & {
  stack: Stack;
  /** The ingress that reaches Redis through the proxy. */
  ingress: RunningIngress;
  proxy: TcpProxy;
  client: KeyClient;
  key: string;
  books: Books;
};

async function openScene(workers: number): Promise<Scene> {
  await using parts = new AsyncDisposableStack();
  const stack = parts.use(await startStack({ models: oneBackend, workers, timeouts }));
  const proxy = parts.use(await startTcpProxy(addressIn(stack.redisUrl)));
  const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
  parts.defer(() => ingress.process.stop());
  const redis = parts.adopt(new Redis(stack.redisUrl), (connection) => connection.disconnect());
  const store = parts.use(await openStore(`sqlite:${join(stack.directory, 'store.sqlite')}`, recordedLog()));
  const outboxes = parts.use(followOutboxes(stack.redisUrl));
  const client = createKeyClient(stack, { url: () => ingress.url });
  const key = await client.newKey('alice');
  const books = openBooks({ stack, redis, store, outboxes, keys: new Map([['user:alice', key]]) });
  const owned = parts.move();
  return { stack, ingress, proxy, client, key, books, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/**
 * Sends batches of requests, until the replies of the last of these kinds were swallowed for `wanted` requests. A batch with received
 * replies is followed by another.
 */
async function askWithoutReply(
  { ingress, proxy, key }: Scene,
  wanted: number,
  kinds: (typeof jobs)[],
  beforeEach?: () => void,
): Promise<AskedRequest[]> {
  const unanswered: AskedRequest[] = [];
  const agent = new Agent();
  for (let batches = 0; unanswered.length < wanted; batches++) {
    if (batches === batchesMax) throw new Error(`only ${unanswered.length} of ${wanted} answers could be swallowed`);
    let isSwallowed = false;
    beforeEach?.();
    void proxy.swallow(kinds).then(() => {
      isSwallowed = true;
    });
    const wish = { url: ingress.url, key, question, model: 'small-chat' };
    const asked = await Promise.all(
      Array.from({ length: batch }, (_, index) => {
        const stream = index % 2 === 0;
        return ask({ ...wish, stream, includeUsage: stream }, agent);
      }),
    );
    if (isSwallowed) unanswered.push(...asked);
    proxy.become('pass');
    await untilReady(ingress);
  }
  await agent.close();
  return unanswered;
}

async function untilReady({ operationsUrl }: RunningIngress): Promise<void> {
  const isReady = async () => (await fetch(`${operationsUrl}/readyz`)).status === 200;
  while (!(await isReady())) await new Promise((resolve) => setTimeout(resolve, 20));
}

type QuotaNow = { used: number; requests: number; tokens: number };

/** The counters in the headers of a request that is refused immediately. */
async function quotaNow({ client, key }: Scene): Promise<QuotaNow> {
  const { headers } = await client.send('POST', '/v1/chat/completions', { bearer: key, body: { model: 'none' } });
  const number = (name: string) => Number(headers.get(name));
  const rates = ['requests', 'tokens'].map((unit) => number(`x-ratelimit-remaining-${unit}`));
  const [requests = Number.NaN, tokens = Number.NaN] = rates;
  return { used: number('x-svc-quota-used'), requests, tokens };
}

/** Only time may have changed the counters: charges older than a minute no longer count. */
function isUnchanged(t: ExecutionContext, before: QuotaNow, after: QuotaNow): void {
  t.is(after.used, before.used);
  t.true(after.requests >= before.requests && before.requests > 0, 'requests of this minute were released');
  t.true(after.tokens >= before.tokens && before.tokens > 0, 'tokens of this minute were released');
}

function are503(t: ExecutionContext, asked: readonly AskedRequest[]): void {
  t.deepEqual([...new Set(asked.map((one) => ('status' in one ? one.status : one.ending)))], [503]);
}

function requestIdsOf(asked: readonly AskedRequest[]): Set<string | undefined> {
  return new Set(asked.map(({ requestId }) => requestId));
}

faultTest(
  test.serial,
  {
    id: '10b',
    done: 'Redis adds jobs and its replies are lost; their requests are withdrawn',
    promised: '503; the jobs reach no backend and cost nothing',
  },
  async (t, see) => {
    await using scene = await openScene(0);
    const { stack, books } = scene;
    await stack.startWorker();
    t.like(await scene.client.infer(scene.key), { status: 200 });
    await books.untilAllIsStored();
    await stack.workers.pop()?.process.stop();
    const before = await quotaNow(scene);

    const unanswered = await askWithoutReply(scene, 200, [admissions, jobs]);
    are503(t, unanswered);
    await books.untilAllHasEnded();
    // A job that was withdrawn after Redis could be reached again was removed from its queue as well.
    const added = await books.jobs();
    t.true(added > 0 && added <= unanswered.length, `${added} were added nevertheless, and are still there`);
    await stack.startWorker();
    await books.untilNothingRuns();
    await books.untilAllIsStored();

    const ids = requestIdsOf(unanswered);
    t.is(ids.size, unanswered.length);
    const evidence = await books.evidence(unanswered);
    t.deepEqual(
      evidence.calls.filter(({ requestId }) => ids.has(requestId)),
      [],
    );
    t.is(evidence.calls.length, 1, 'that of the first request, whose replies all arrived');
    t.is(evidence.records.size, 1);
    await books.agree(t, evidence);
    isUnchanged(t, before, await quotaNow(scene));
    see(
      `${unanswered.length} of ${unanswered.length} got 503, ${added} of their jobs were still there; 0 calls, 0 records`,
    );
  },
);

faultTest(
  test.serial,
  {
    id: '10c',
    done: 'Redis adds jobs and its replies are lost; workers take them immediately',
    promised: '503; runs are counted once',
  },
  async (t, see) => {
    await using scene = await openScene(2);
    const { stack, books } = scene;
    t.like(await scene.client.infer(scene.key), { status: 200 });
    const unanswered = await askWithoutReply(scene, 3 * batch, [admissions, jobs], () => {
      stack.modelServers[0].fail({ latencyMs: 2_500, times: Math.floor(batch / 2) });
    });
    are503(t, unanswered);
    await books.untilNothingRuns();
    await books.untilAllHasEnded();
    await books.untilAllIsStored();

    const evidence = await books.evidence(unanswered);
    const contradictions = contradictionsIn(evidence);
    t.deepEqual(contradictions, []);
    const called = new Set(evidence.calls.map(({ requestId }) => requestId));
    t.deepEqual([...called].sort(), [...evidence.records.keys()].sort(), 'exactly the requests that ran have a record');
    const outcomes = [...evidence.records.values()].map(({ outcome }) => outcome);
    for (const outcome of ['completed', 'cancelled'] as const) t.true(outcomes.includes(outcome), `${outcomes}`);
    await books.agree(t, evidence);
    see(
      `${unanswered.length} of ${unanswered.length} got 503; ${called.size} ran, ${evidence.records.size} records, ${contradictions.length} contradictions`,
    );
  },
);

faultTest(
  test.serial,
  {
    id: '10a',
    done: 'Redis admits requests and its replies are lost',
    promised: '503; reservations are released, and no record is left',
  },
  async (t, see) => {
    await using scene = await openScene(1);
    const { books } = scene;
    t.like(await scene.client.infer(scene.key), { status: 200 });
    await books.untilAllIsStored();
    const before = await quotaNow(scene);

    const unanswered = await askWithoutReply(scene, 2 * batch, [admissions]);
    are503(t, unanswered);
    await books.untilAllHasEnded();

    const evidence = await books.evidence(unanswered);
    t.is(evidence.calls.length, 1, 'that of the first request, whose replies all arrived');
    t.is(evidence.records.size, 1);
    await books.agree(t, evidence);
    isUnchanged(t, before, await quotaNow(scene));
    see(`${unanswered.length} of ${unanswered.length} got 503; 0 records, and their reservations were released`);
  },
);
