import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { countersKey, queuePrefix } from '../../shared/redis/keys.ts';
import { oneBackend } from '../stack/plan.ts';
import { type RunningIngress, type RunningProcess, type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { openRedis } from '../support/open-redis.ts';
import { scriptDescription } from '../support/script-description.ts';
import { someOf } from '../support/size.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { questionOf } from '../support/truth/ask.ts';

/** An account may have sixteen with a key at once. */
const requests = 15;
const starting = scriptDescription('workers/requests/start-run.lua');
/** Only settling an answered request sends this. */
const settling = '"outcome":"completed"';

/** A stack with an ingress that is never harmed, and an ingress and a worker of which each has a connection to Redis that can be cut. */
type Scene = {
  stack: Stack;
  survivor: RunningIngress;
  ingress: RunningIngress;
  /** Undefined until the requests wait in their queue. */
  worker: RunningProcess | undefined;
  ingressRedis: TcpProxy;
  workerRedis: TcpProxy;
};

type Step = {
  /** Whether a worker runs before the step. */
  hasWorker: boolean;
  /**
   * Called before the requests are sent. The promise resolves when the first is at the step, and from the queue on, when the others are
   * queued. If it is missing, the step is when all have ended.
   */
  reach?: (scene: Scene) => Promise<unknown>;
};

const steps: Record<string, Step> = {
  'before admission': { hasWorker: true, reach: ({ ingressRedis }) => ingressRedis.holdBefore(':claim:') },
  'after admission, before it is queued': {
    hasWorker: true,
    reach: ({ ingressRedis }) => ingressRedis.holdBefore('"idempotencyKey":"'),
  },
  queued: { hasWorker: false, reach: untilQueued },
  'taken, before its start': { hasWorker: true, reach: withAllQueued((worker) => worker.holdBefore(starting)) },
  started: { hasWorker: true, reach: withAllQueued((worker) => worker.holdAfter(starting)) },
  'while its backend is called': { hasWorker: true, reach: untilCalled },
  'answered, before it is settled': { hasWorker: true, reach: withAllQueued((worker) => worker.holdBefore(settling)) },
  'settled, before the reply': { hasWorker: true, reach: withAllQueued((worker) => worker.holdAfter(settling)) },
  'after the reply': { hasWorker: true },
};

/** The first request is at the step, and the others are queued: none was only admitted, whose lease would have to expire. */
function withAllQueued(hold: (workerRedis: TcpProxy) => Promise<void>): NonNullable<Step['reach']> {
  return async (scene) => {
    await hold(scene.workerRedis);
    await untilQueued(scene);
  };
}

/** Jobs that a worker has taken are still there. */
async function untilQueued({ stack }: Scene): Promise<void> {
  const redis = openRedis(stack.redisUrl);
  try {
    while ((await redis.keys(`${queuePrefix('small-chat')}:*:req_${'?'.repeat(26)}`)).length < requests)
      await sleep(50);
  } finally {
    redis.disconnect();
  }
}

async function untilCalled({ stack }: Scene): Promise<void> {
  const [server] = stack.modelServers;
  const before = server.calls().length;
  server.fail({ latencyMs: 2_000, times: requests });
  while (server.calls().length < before + requests) await sleep(20);
}

const victims: Record<string, (scene: Scene, leaving: AbortController) => void> = {
  client: (_scene, leaving) => leaving.abort(),
  ingress: ({ stack, ingress }) => end(stack.ingresses, ingress),
  worker: ({ stack, worker }) => worker && end(stack.workers, worker),
  'connection to Redis': ({ ingressRedis, workerRedis }) => {
    for (const proxy of [ingressRedis, workerRedis]) proxy.become('reset');
  },
};

function end<Running extends RunningProcess>(all: Running[], one: Running): void {
  one.process.kill('SIGKILL');
  all.splice(all.indexOf(one), 1);
}

const parts = new AsyncDisposableStack();
let stack: Stack;
let scenes = 0;

test.before(async () => {
  const timeouts = { queue_ms: 10_000 };
  // Repeats beyond the tenth count as requests.
  const plans = { free: { priority: 10, model_tiers: ['guest'] } };
  stack = parts.use(await startStack({ models: oneBackend, workers: 0, timeouts, plans }));
});
test.after.always(() => parts.disposeAsync());

const all = Object.entries(steps).flatMap(([stepName, step], stepIndex) =>
  Object.entries(victims).map(([victimName, harm], index) => ({
    ...{ stepName, step, victimName, harm },
    isOneOfFew: (stepIndex + index) % 4 === 3,
  })),
);
/** Each step, and each victim at two steps or more. */
const few = all.filter(({ isOneOfFew }) => isOneOfFew);

for (const { stepName, step, victimName, harm } of someOf(few, all)) {
  test.serial(`${requests} requests, cut ${stepName}: ${victimName}`, async (t) => {
    t.timeout(240_000);
    await using opened = new AsyncDisposableStack();
    const scene = await openScene(opened, step.hasWorker);
    const name = `cut-${scenes++}`;
    const key = await stack.mintKey(name);
    const questions = Array.from({ length: requests }, (_, index) => `Request ${scenes}-${100 + index}?`);
    const leaving = new AbortController();
    const reached = step.reach?.(scene);
    const firsts = questions.map((question) => first(scene.ingress.url, { key, question, signal: leaving.signal }));
    await (reached ?? Promise.all(firsts));
    harm(scene, leaving);
    for (const proxy of [scene.ingressRedis, scene.workerRedis]) proxy.become('pass');
    if (victimName === 'worker' || !step.hasWorker) opened.use(stoppedAtLast(await stack.startWorker()));
    const delivered = await Promise.all(firsts);
    await assertRepeats(t, { scene, key, questions, delivered, callsMax: victimName === 'worker' ? 2 : 1 });
    t.is(await bytesReserved(`user:${name}`), 0, 'nothing is left that was reserved for answers');
  });
}

async function openScene(opened: AsyncDisposableStack, hasWorker: boolean): Promise<Scene> {
  const [survivor] = stack.ingresses;
  if (survivor === undefined) throw new Error('one ingress always runs');
  const open = async () => opened.use(await startTcpProxy(addressIn(stack.redisUrl)));
  const [ingressRedis, workerRedis] = [await open(), await open()];
  const through = ({ port }: TcpProxy) => ({ REDIS_URL: `redis://127.0.0.1:${port}` });
  const replies = { REPLY_REDIS_URL: stack.redisUrl };
  const ingress = await stack.startIngress({ ...through(ingressRedis), ...replies });
  opened.use(stoppedAtLast(ingress));
  // If replies have their own connection, the last reply waits until the settling was confirmed.
  const worker = hasWorker ? await stack.startWorker({ ...through(workerRedis), ...replies }) : undefined;
  if (worker !== undefined) opened.use(stoppedAtLast(worker));
  return { stack, survivor, ingress, worker, ingressRedis, workerRedis };
}

const stoppedAtLast = (running: RunningProcess) => ({
  async [Symbol.asyncDispose]() {
    for (const all of [stack.ingresses, stack.workers] as RunningProcess[][]) {
      if (all.includes(running)) all.splice(all.indexOf(running), 1);
    }
    running.process.kill('SIGKILL');
    await running.process.exited;
  },
});

type Sent = { key: string; question: string; signal?: AbortSignal };
const send = (url: string, sent: Sent) =>
  chat({
    url,
    ...sent,
    headers: { 'idempotency-key': sent.question.replaceAll(' ', '-') },
    fields: { max_tokens: 20 },
  });

/** The answer, undefined if it did not arrive. */
async function first(url: string, sent: Sent): Promise<string | undefined> {
  try {
    const response = await send(url, sent);
    const text = await response.text();
    return response.status === 200 ? text : undefined;
  } catch {
    return undefined;
  }
}

type End = { text: string } | 'lost';

/** Repeats the request as a client does until it knows how the request has ended. */
async function untilEnded(t: ExecutionContext, url: string, sent: Sent): Promise<End> {
  for (;;) {
    const response = await send(url, sent);
    const text = await response.text();
    if (response.status === 200) return { text };
    const { code } = JSON.parse(text) as { code: string }; // a response of the service itself
    if (code === 'IDEMPOTENCY_RESULT_LOST') return 'lost';
    t.true([409, 503].includes(response.status), text);
    await sleep(200);
  }
}

type Assertion = {
  scene: Scene;
  key: string;
  questions: readonly string[];
  delivered: readonly (string | undefined)[];
  callsMax: number;
};

async function assertRepeats(t: ExecutionContext, { scene, key, questions, delivered, callsMax }: Assertion) {
  const { url } = scene.survivor;
  const ends = await Promise.all(questions.map((question) => untilEnded(t, url, { key, question })));
  const texts = ends.map((one) => (one === 'lost' ? one : one.text));
  for (const [index, text] of delivered.entries()) if (text !== undefined) t.is(texts[index], text);
  const again = await Promise.all(questions.map((question) => untilEnded(t, url, { key, question })));
  t.deepEqual(again, ends, 'it stays so');

  const calls = Map.groupBy(stack.modelServers[0].calls(), (call) => questionOf(call));
  for (const question of questions) t.true((calls.get(question)?.length ?? 0) <= callsMax, question);
  const { used, reserved } = await quotaOf(key);
  t.is(reserved, 0, 'nothing is left that could be charged');
  const answered = ends.flatMap((one) => (one === 'lost' ? [] : [tokensIn(one.text)]));
  const [most = 0] = answered.toSorted((one, other) => other - one);
  const charged = answered.reduce((sum, tokens) => sum + tokens, 0);
  const lost = ends.length - answered.length;
  t.log(`${delivered.filter((text) => text !== undefined).length} delivered, ${answered.length} kept, ${lost} lost`);
  t.true(used >= charged && used <= charged + lost * Math.max(most, 100), `${used} tokens for ${charged}`);
}

async function quotaOf(key: string): Promise<{ used: number; reserved: number }> {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${stack.ingresses[0]?.url}/billing/quota`, { headers });
  return (await response.json()) as { used: number; reserved: number }; // a response of the service itself
}

async function bytesReserved(account: string): Promise<number> {
  const redis = openRedis(stack.redisUrl);
  const reserved = Number(await redis.hget(countersKey(account), 'keeping'));
  redis.disconnect();
  return reserved;
}

function tokensIn(text: string): number {
  const { usage } = JSON.parse(text) as { usage: { total_tokens: number } }; // a response of the service itself
  return usage.total_tokens;
}
