import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { FleetView } from '../../ingress/routes/fleet.ts';
import { type Call, type ModelServer, startModelServer } from '../stack/model-server.ts';
import type { BackendSettings } from '../stack/plan.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import {
  askTurn,
  type ChatTurn,
  latestPlaces,
  longText,
  manyChats,
  onePlaceOfEach,
  placesOf,
  sendTurn,
  withFewClients,
} from '../support/prefix-chats.ts';

const limit = 3;
const burst = 20;
const replicas = (name: string) => ({ tier: 'guest', pool: 'default', backends: [`${name}-a`, `${name}-b`] });
const models = {
  ...{ measured: replicas('onprem'), failing: replicas('onprem') },
  ...{ mortal: replicas('mortal'), narrow: replicas('narrow'), left: replicas('narrow'), wide: replicas('wide') },
};
/** No request waits for a limit. */
const free = { requests_at_once: 256, priority: 10, model_tiers: ['guest'] };
const pace = { firstTokenMs: 5 };

const parts = new AsyncDisposableStack();
let stack: Stack;
let servers: readonly ModelServer[];
let mortal: [ModelServer, ModelServer];
let narrow: readonly [ModelServer, ModelServer];
let keys: KeyClient;

const startServer = async (name: string, port = 0) => parts.use(await startModelServer({ name, port, ...pace }));

test.before(async () => {
  mortal = [await startServer('mortal-a'), await startServer('mortal-b')];
  narrow = [await startServer('narrow-a'), await startServer('narrow-b')];
  const settings = (server: Pick<ModelServer, 'name' | 'url'>, more: BackendSettings = {}) =>
    [server.name, { url: server.url, location: 'on-prem' as const, ...more }] as const;
  const limited = narrow.map((server) => settings(server, { requests_at_once: limit }));
  const wide = narrow.map(({ name, url }) =>
    settings({ name: name.replace('narrow', 'wide'), url }, { requests_at_once: 64 }),
  );
  const backends = Object.fromEntries([...mortal.map((server) => settings(server)), ...limited, ...wide]);
  stack = parts.use(
    await startStack({ ingresses: 2, workers: 2, plans: { free }, models, backends, modelServers: pace }),
  );
  servers = stack.modelServers.slice(0, 2);
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

const serviceOf = (key: string, turn = 0) => ({ url: stack.ingresses[turn % stack.ingresses.length]?.url ?? '', key });
const ask = (t: ExecutionContext, key: string, turn: ChatTurn) => askTurn(t, serviceOf(key, turn.turn), turn);
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

function callsOf(of: readonly ModelServer[], model: string): Call[] {
  return of.flatMap((server) => server.calls().filter((call) => call.model === model));
}

const running = (of: readonly ModelServer[], model: string) =>
  callsOf(of, model).filter(({ state }) => state === 'running').length;

/** The servers hold all calls of this model until the returned function is called. */
function hold(t: ExecutionContext, of: readonly ModelServer[], model: string): () => void {
  const release = () => {
    for (const server of of) server.heal(model);
  };
  for (const server of of) server.fail({ untilHealed: true }, model);
  t.teardown(release);
  return release;
}

/** Of all workers, the sum of the series of a metric that have these labels. */
async function metric(name: string, labels: Readonly<Record<string, string>>): Promise<number> {
  const texts = await Promise.all(
    stack.workers.map(async ({ operationsUrl }) => (await fetch(`${operationsUrl}/metrics`)).text()),
  );
  const series = texts.flatMap((text) => [...text.matchAll(new RegExp(`^${name}\\{(.*)\\} (\\S+)$`, 'gm'))]);
  const matching = series.filter(([, found = '']) =>
    Object.entries(labels).every(([label, value]) => found.includes(`${label}="${value}"`)),
  );
  return sum(matching.map(([, , value]) => Number(value)));
}

test.serial('metrics and the fleet show choices by depth, misses by load, and tokens of prompts', async (t) => {
  const [key, model, system] = [await keys.newKey('measured'), 'measured', longText('The same for all. ')];
  const choices = (depth: string) => metric('svc_affinity_choices_total', { model, depth });
  await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 1, system }));
  const places = onePlaceOfEach(t, servers, model);
  t.is(await choices('1'), manyChats.length);
  await ask(t, key, { model, chat: 'short', turn: 1, isShort: true });
  t.is(await metric('svc_affinity_choices_total', { model }), manyChats.length, 'a short prompt has no key');

  // One of both servers is the first choice of what all begin with, and the other one is not.
  for (const server of servers) {
    const release = hold(t, servers, model);
    const chat = manyChats.find((each) => places.get(each)?.[0] === server.name) ?? '';
    const misses = () => metric('svc_affinity_misses_total', { backend: server.name, reason: 'load' });
    const [asked, before]: [Promise<void>[], number] = [[], await misses()];
    while ((await misses()) === before) {
      asked.push(...Array.from({ length: burst }, () => ask(t, key, { model, chat, turn: 2, system })));
      while (running(servers, model) < asked.length) await sleep(20);
    }
    release();
    await Promise.all(asked);
  }
  const byDepth = { first: await choices('1'), second: await choices('2'), none: await choices('none') };
  t.log(JSON.stringify(byDepth));
  t.true(byDepth.first > manyChats.length && byDepth.second > 0 && byDepth.none > 0);

  const calls = callsOf(servers, model);
  t.is(sum(Object.values(byDepth)), calls.length - 1);
  const promptTokens = sum(calls.map((call) => call.promptTokens));
  t.is(await metric('svc_backend_prompt_tokens_total', { model, from: 'computed' }), promptTokens);
  const shown = await shownOf(model, calls.length);
  t.is(sum(shown.map(({ prompt_tokens }) => prompt_tokens)), promptTokens);
  for (const { weight, cached_tokens } of shown)
    t.deepEqual({ weight, cached_tokens }, { weight: 1, cached_tokens: 0 });
});

/** What the fleet shows of the backends of a model, once it shows so many answered calls. */
async function shownOf(model: string, answered: number) {
  const bearer = await keys.token('operator', true);
  for (;;) {
    const { backends } = (await keys.send('GET', '/admin/fleet', { bearer })).body as unknown as FleetView; // documented
    const shown = backends.flatMap(({ weight, models }) =>
      models.filter((health) => health.model === model).map((health) => ({ weight, ...health })),
    );
    if (sum(shown.map((health) => health.answered)) >= answered) return shown;
    await sleep(50);
  }
}

test.serial('chats of a backend that has gone are answered by another one, and return when it is back', async (t) => {
  const [key, model] = [await keys.newKey('mortal'), 'mortal'];
  await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 1 }));
  const places = onePlaceOfEach(t, mortal, model);
  const [dying, other] = mortal;
  await dying[Symbol.asyncDispose]();
  for (const turn of [2, 3]) await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn }));
  for (const place of latestPlaces(mortal, model).values()) t.is(place, other.name);

  const back = await startServer(dying.name, dying.port);
  const since = performance.now();
  const isBack = () => {
    const latest = latestPlaces([back, other], model);
    return manyChats.every((chat) => latest.get(chat) === places.get(chat)?.[0]);
  };
  let turn = 4;
  do {
    const next = turn++;
    await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: next }));
  } while (!isBack());
  t.log(`all are back after ${turn - 4} rounds, ${Math.round(performance.now() - since)} ms`);
});

test.serial('chats of a backend that fails each call are answered by another one', async (t) => {
  const [key, model] = [await keys.newKey('failing'), 'failing'];
  const [failing, other] = servers;
  await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 1 }));
  onePlaceOfEach(t, servers, model);
  failing?.fail({ status: 500 }, model);
  t.teardown(() => failing?.heal(model));
  for (const turn of [2, 3]) await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn }));
  t.true(callsOf(servers, model).some(({ status }) => status === 500));
  for (const place of latestPlaces(servers, model).values()) t.is(place, other?.name);
});

test.serial('chats stay at one backend while it has few of the calls that it may have at once', async (t) => {
  const [key, model] = [await keys.newKey('wide'), 'wide'];
  for (let turn = 1; turn <= 10; turn++) await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn }));
  for (const server of ['wide-a', 'wide-b'])
    t.is(await metric('svc_affinity_misses_total', { backend: server, reason: 'room' }), 0);
  onePlaceOfEach(t, narrow, model);
});

test.serial('a burst of one prompt uses all that backends may have at once, and never more', async (t) => {
  const [key, model] = [await keys.newKey('narrow'), 'narrow'];
  const release = hold(t, narrow, model);
  const asked = Array.from({ length: 60 }, (_, index) => ask(t, key, { model, chat: 'same', turn: 1 + (index % 2) }));
  while (running(narrow, model) < 2 * limit) await sleep(20);
  release();
  await Promise.all(asked);
  t.is(placesOf(narrow, model).get('same')?.length, 60, 'each is called once');
  for (const server of narrow) t.is(Math.max(...callsOf([server], model).map(({ atOnce }) => atOnce)), limit);
});

test.serial('the slot of a client that leaves is free for another one, and for no more', async (t) => {
  const [key, model] = [await keys.newKey('left'), 'left'];
  const release = hold(t, narrow, model);
  const leaving = Array.from({ length: 2 * limit }, () => new AbortController());
  const left = leaving.map(({ signal }, index) =>
    sendTurn({ ...serviceOf(key), signal }, { model, chat: 'same', turn: 1, stream: index % 2 === 0 }),
  );
  while (running(narrow, model) < 2 * limit) await sleep(20);
  const asked = Array.from({ length: 20 }, (_, index) => ask(t, key, { model, chat: 'same', turn: 2 + (index % 2) }));
  for (const [index, client] of leaving.entries()) {
    client.abort();
    await t.throwsAsync(left[index] ?? Promise.resolve(), { name: 'AbortError' });
    while (callsOf(narrow, model).length < 2 * limit + index + 1) await sleep(5);
  }
  t.is(callsOf(narrow, model).filter(({ state }) => state === 'aborted').length, 2 * limit);
  release();
  await Promise.all(asked);
  t.is(callsOf(narrow, model).length, 2 * limit + 20);
  for (const server of narrow) t.is(Math.max(...callsOf([server], model).map(({ atOnce }) => atOnce)), limit);
});
