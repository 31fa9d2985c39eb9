import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { openStore } from '../../shared/process/open-store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { databaseUrl, startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { createOperatorClient } from '../support/operator-client.ts';
import { createPlanEditor } from '../support/plan-file-editor.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';
import { measureTakeover } from './costs/takeover.ts';

/**
 * A time that the service promises, in milliseconds, and what was measured. Tests check these promises by order or by a fake clock only.
 */
export type PromisedTime = { promise: string; barMs: number; measuredMs: number[] };

const lookEveryMs = 5;
/** After this, a round has failed. */
const waitMsMax = 120_000;
const holding = { untilHealed: true } as const;
let names = 0;

/** Measures each promise in as many rounds, with two ingresses and two workers, and the longer ones in one round. */
export async function measurePromises({ rounds }: { rounds: number }): Promise<PromisedTime[]> {
  await using stack = await startStack({ ingresses: 2, workers: 2, plans: { free: { model_tiers: ['guest'] } } });
  const keys = createKeyClient(stack);
  const key = await keys.newKey('alice');
  const rows: PromisedTime[] = [];
  async function add(promise: string, barMs: number, measure: () => Promise<number>, times = rounds): Promise<void> {
    console.error(promise);
    const measuredMs: number[] = [];
    for (let round = 0; round < times; round++) measuredMs.push(await measure());
    rows.push({ promise, barMs, measuredMs });
  }

  await add('a change of the plan file is in force in every process', 5_000, () => planFileInForce(stack));
  for (const stream of [true, false]) {
    const kind = stream ? 'streamed' : 'whole';
    await add(`a client disconnects: its backend call is aborted, ${kind}`, 1_000, () => leave({ stack, key, stream }));
  }
  await add('an account is suspended: its stream has ended', 2_000, () => suspend(stack, keys));
  await add('an operator ends a request: its stream has ended', 2_000, () => endRequest(stack, key));
  await add('a silent stream begins with 200 and a comment', 10_500, () => firstComment(stack, key));
  await add('Redis is stopped: a new request gets its 503', 2_000, () => stopRedis(stack, key));
  await add('all processes are killed: the slots of the account are free', 75_000, () => killAll(stack, key), 1);
  const silent = await silentStore();
  if (silent !== undefined)
    rows.push({ promise: 'MongoDB is silent: a call fails', barMs: 5_500, measuredMs: [silent] });
  const takeover = 'a worker is killed: its requests are started by another';
  console.error(takeover);
  rows.push({ promise: takeover, barMs: 15_000, measuredMs: await measureTakeover() });
  return rows;
}

async function planFileInForce(stack: Stack): Promise<number> {
  const editor = createPlanEditor(stack);
  const written = await editor.change((plan) => {
    plan.models[`chat-${++names}`] = { tier: 'guest', pool: 'default', backends: ['onprem-a'], output_tokens_max: 100 };
  });
  const begunMs = performance.now();
  await editor.until([...stack.ingresses, ...stack.workers], ({ generation }) => generation === written);
  return performance.now() - begunMs;
}

/** Sends a request that its backend holds. Returns a function that resolves when the backend's call is aborted. */
async function holdCall(stack: Stack, ask: () => Promise<unknown>): Promise<() => Promise<void>> {
  for (const server of stack.modelServers) server.fail(holding);
  const earlier = new Set(calls(stack).map(({ id }) => id));
  const answer = ask();
  answer.catch(() => {}); // it is aborted
  const own = () => calls(stack).find(({ id }) => !earlier.has(id));
  await until(() => own() !== undefined);
  return () => until(() => own()?.state === 'aborted');
}

const calls = (stack: Stack) =>
  stack.modelServers.flatMap((server) => server.calls().map((call) => ({ ...call, id: `${server.name} ${call.id}` })));

async function leave({ stack, key, stream }: { stack: Stack; key: string; stream: boolean }): Promise<number> {
  const leaving = new AbortController();
  const agent = new Agent();
  const ask = () =>
    request(`${stack.ingresses[0]?.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'small-chat', stream, messages: [{ role: 'user', content: 'Hello' }] }),
      dispatcher: agent,
      signal: leaving.signal,
    });
  const aborted = await holdCall(stack, ask);
  const begunMs = performance.now();
  leaving.abort();
  await aborted();
  const tookMs = performance.now() - begunMs;
  heal(stack);
  await agent.destroy();
  return tookMs;
}

/** A stream whose first text has arrived, and that would run for minutes. */
async function openStream(stack: Stack, key: string): Promise<{ ended: Promise<void>; id: string }> {
  const response = await chat({ url: stack.ingresses[1]?.url ?? '', key, question: 'Tell me all', stream: true });
  const reader = response.body?.getReader();
  if (response.status !== 200 || reader === undefined) throw new Error(`a stream was answered ${response.status}`);
  await reader.read();
  async function readAll(): Promise<void> {
    while (!(await reader?.read())?.done);
  }
  return { ended: readAll(), id: response.headers.get('x-request-id') ?? '' };
}

/** Of the end of a stream after what `end` does. */
async function endOf(stack: Stack, key: string, end: (id: string) => Promise<{ status: number }>): Promise<number> {
  for (const server of stack.modelServers) server.fail({ endless: true, chunkMs: 100 });
  const { ended, id } = await openStream(stack, key);
  const begunMs = performance.now();
  const { status } = await end(id);
  if (status >= 300) throw new Error(`the end of a request was answered ${status}`);
  await ended;
  const tookMs = performance.now() - begunMs;
  heal(stack);
  return tookMs;
}

async function suspend(stack: Stack, keys: KeyClient): Promise<number> {
  const name = `suspended-${++names}`;
  const key = await keys.newKey(name);
  return endOf(stack, key, () => keys.change(`user:${name}`, { suspended: true }));
}

function endRequest(stack: Stack, key: string): Promise<number> {
  return endOf(stack, key, (id) => createOperatorClient(stack).endRequest(id));
}

async function firstComment(stack: Stack, key: string): Promise<number> {
  for (const server of stack.modelServers) server.fail(holding);
  const begunMs = performance.now();
  const { status, body } = await chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'Hello', stream: true });
  const tookMs = performance.now() - begunMs;
  if (status !== 200) throw new Error(`a silent stream was answered ${status}`);
  await body?.cancel();
  heal(stack);
  return tookMs;
}

async function stopRedis(stack: Stack, key: string): Promise<number> {
  const ask = async () => (await chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'Hello' })).status;
  await stack.redis?.stop();
  const begunMs = performance.now();
  const status = await ask();
  const tookMs = performance.now() - begunMs;
  if (status !== 503) throw new Error(`a request without Redis was answered ${status}`);
  await stack.redis?.restart();
  await until(async () => (await ask()) === 200);
  return tookMs;
}

/** Undefined if there is no MongoDB. */
async function silentStore(): Promise<number | undefined> {
  const mongo = await startMongo();
  if ('reason' in mongo) return undefined;
  await using _mongo = mongo;
  await using proxy = await startTcpProxy(addressIn(mongo.url));
  const url = urlThrough(proxy.port, databaseUrl(mongo.url, `promises-${process.pid}`));
  await using store = await openStore(url, { log: { warn() {} } });
  const ping = () =>
    store.ping().then(
      () => true,
      () => false,
    );
  await until(ping);
  proxy.become('black hole');
  const begunMs = performance.now();
  while (await ping());
  return performance.now() - begunMs;
}

async function killAll(stack: Stack, key: string): Promise<number> {
  const atOnce = 2;
  const editor = createPlanEditor(stack);
  const written = await editor.change(({ plans: { free } }) => Object.assign(free ?? {}, { requests_at_once: atOnce }));
  const running = () => [...stack.ingresses, ...stack.workers];
  await editor.until(running(), ({ generation }) => generation === written);
  const ask = async () => (await chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'Hello' })).status;
  for (const server of stack.modelServers) server.fail(holding);
  const held = Array.from({ length: atOnce }, () => ask().catch(() => 0));
  await until(() => calls(stack).filter(({ state }) => state === 'running').length === atOnce);
  for (const { process } of running()) process.kill('SIGKILL');
  stack.ingresses.length = 0;
  stack.workers.length = 0;
  const begunMs = performance.now();
  await Promise.all(held);
  heal(stack);
  await Promise.all([stack.startIngress(), stack.startWorker(), stack.startWorker()]);
  await until(async () => (await ask()) === 200);
  return performance.now() - begunMs;
}

function heal(stack: Stack): void {
  for (const server of stack.modelServers) server.heal();
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const byMs = performance.now() + waitMsMax;
  while (!(await holds())) {
    if (performance.now() > byMs) throw new Error(`it did not happen within ${waitMsMax} ms`);
    await sleep(lookEveryMs);
  }
}
