import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { FleetView } from '../../ingress/routes/fleet.ts';
import type { ModelServer } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { createPlanEditor } from '../support/plan-file-editor.ts';
import {
  askTurn,
  type ChatTurn,
  latestPlaces,
  manyChats,
  onePlaceOfEach,
  placesOf,
  withFewClients,
} from '../support/prefix-chats.ts';

const onPrem = { tier: 'guest', pool: 'default', backends: ['onprem-a', 'onprem-b'] };
const models = { canary: onPrem, drained: onPrem, streamed: onPrem };
/** No request waits for a limit. */
const free = { requests_at_once: 256, priority: 10, model_tiers: ['guest'] };
const pace = { firstTokenMs: 5 };

let stack: Stack;
let servers: readonly [ModelServer, ModelServer];
let keys: KeyClient;
let editor: ReturnType<typeof createPlanEditor>;

test.before(async () => {
  stack = await startStack({ ingresses: 2, workers: 2, plans: { free }, models, modelServers: pace });
  servers = [stack.modelServers[0], stack.modelServers[1]];
  keys = createKeyClient(stack);
  editor = createPlanEditor(stack);
});

test.after.always(() => stack[Symbol.asyncDispose]());

async function ask(t: ExecutionContext, key: string, turn: ChatTurn): Promise<void> {
  const url = stack.ingresses[turn.turn % stack.ingresses.length]?.url ?? '';
  await askTurn(t, { url, key }, turn);
}

/** Resolves when every process has these weights. */
async function setWeights(weights: Record<string, number>): Promise<void> {
  const written = await editor.change((plan) => {
    for (const [name, weight] of Object.entries(weights)) Object.assign(plan.backends[name] ?? {}, { weight });
  });
  await editor.until([...stack.ingresses, ...stack.workers], ({ generation }) => generation === written);
}

async function weightsShown(): Promise<Record<string, number>> {
  const bearer = await keys.token('operator', true);
  const { backends } = (await keys.send('GET', '/admin/fleet', { bearer })).body as unknown as FleetView; // documented
  return Object.fromEntries(backends.map(({ backend, weight }) => [backend, weight]));
}

/** Asks turn after turn until each chat is where it was. */
async function untilBack(
  t: ExecutionContext,
  { key, model, turn }: Pick<ChatTurn, 'model' | 'turn'> & { key: string },
  isBack: () => boolean,
): Promise<void> {
  const since = performance.now();
  let rounds = 0;
  do {
    const next = turn + rounds++;
    await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: next }));
  } while (!isBack());
  t.log(`back after ${rounds} rounds, ${Math.round(performance.now() - since)} ms`);
}

test.serial(
  'weights of 5 and 95 are the parts of prompts and of short requests, and chats of the canary stay',
  async (t) => {
    const [key, model] = [await keys.newKey('canary'), 'canary'];
    await setWeights({ 'onprem-a': 5, 'onprem-b': 95 });
    t.like(await weightsShown(), { 'onprem-a': 5, 'onprem-b': 95 });
    const requests = Array.from({ length: 300 }, (_, index) => String(index));
    const [canary, usual] = servers;
    const callsOf = (server: ModelServer) => server.calls().filter((call) => call.model === model).length;
    for (const isShort of [false, true]) {
      const before = callsOf(canary);
      await withFewClients(requests, (request) =>
        ask(t, key, { model, chat: `${isShort ? 'short' : 'long'}-${request}`, turn: 1, isShort }),
      );
      const share = callsOf(canary) - before;
      t.log(`${share} of 300 ${isShort ? 'short' : 'long'} prompts`);
      // Each bound is passed in less than one of a million runs (binomial distribution).
      t.true(share >= 1 && share <= 37, String(share));
    }
    const places = latestPlaces(servers, model);
    const at = (name: string) =>
      [...places].filter(([chat, place]) => place === name && chat.startsWith('long')).map(([chat]) => chat);
    const chats = [...at(canary.name), ...at(usual.name).slice(0, 20)];
    for (const turn of [2, 3]) await withFewClients(chats, (chat) => ask(t, key, { model, chat, turn }));
    for (const chat of chats) t.deepEqual(placesOf(servers, model).get(chat), Array(3).fill(places.get(chat)));
    await setWeights({ 'onprem-a': 1, 'onprem-b': 1 });
  },
);

/** Sends requests all the time, of each kind, until it is stopped. Requires that each is answered. */
function startLoad(t: ExecutionContext, key: string, model: string) {
  const answered = Array.from({ length: 8 }, () => 0);
  let isStopped = false;
  async function client(_: unknown, index: number): Promise<void> {
    for (let asked = 0; !isStopped; asked++) {
      const kind = { isShort: asked % 2 === 0, stream: asked % 3 === 0 };
      await ask(t, key, { model, chat: `load-${index}-${asked}`, turn: 1 + (asked % 2), ...kind });
      answered[index] = asked + 1;
    }
  }
  const running = Promise.all(answered.map(client));
  async function stop(): Promise<void> {
    isStopped = true;
    await running;
  }
  t.teardown(stop);
  return {
    stop,
    /** Resolves when each client has ended what it asks now, and this many more. */
    async untilAnswered(more: number): Promise<void> {
      const wanted = answered.map((count) => count + 1 + more);
      while (answered.some((count, index) => count < (wanted[index] ?? 0))) await sleep(20);
    },
  };
}

const streamTokens = 400;
const question = 'Please repeat 20 of them.';

/** Streams of all chats, of which those at one server take long. Returns when they run; `ended` requires that they are complete. */
async function startStreams(t: ExecutionContext, key: string, slow: ModelServer) {
  const model = 'streamed';
  slow.fail({ chunkMs: 20 }, model);
  const ended = Promise.all(
    manyChats.map((chat) =>
      ask(t, key, { model, chat, turn: 2, question, stream: true, fields: { max_tokens: streamTokens } }),
    ),
  );
  await slow.waitForCall((call) => call.model === model && call.completionTokens > 0);
  return { ended, calls: () => slow.calls().filter((call) => call.model === model) };
}

test.serial(
  'a backend of weight 0 gets no new call, its streams end, and no request fails meanwhile; then chats return',
  async (t) => {
    const [key, model] = [await keys.newKey('drained'), 'drained'];
    await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 1 }));
    const places = onePlaceOfEach(t, servers, model);
    const [drained, other] = servers;
    const load = startLoad(t, key, model);
    await load.untilAnswered(5);
    const streams = await startStreams(t, key, drained);

    await setWeights({ 'onprem-a': 0 });
    t.like(await weightsShown(), { 'onprem-a': 0, 'onprem-b': 1 });
    await load.untilAnswered(0);
    const [before, beside] = [drained.calls().length, other.calls().length];
    t.true(streams.calls().some(({ state }) => state === 'running'));
    await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 2 }));
    await load.untilAnswered(30);
    t.is(drained.calls().length, before);
    t.true(other.calls().length >= beside + manyChats.length + 30);
    await streams.ended;
    for (const { state, completionTokens } of streams.calls())
      t.deepEqual({ state, completionTokens }, { state: 'completed', completionTokens: streamTokens });
    t.is(drained.calls().length, before);

    await setWeights({ 'onprem-a': 1 });
    await load.untilAnswered(5);
    await load.stop();
    await untilBack(t, { key, model, turn: 3 }, () => {
      const latest = latestPlaces(servers, model);
      return manyChats.every((chat) => latest.get(chat) === places.get(chat)?.[0]);
    });
    t.true(drained.calls().length > before);
  },
);
