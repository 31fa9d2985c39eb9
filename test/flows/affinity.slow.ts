import test, { type ExecutionContext } from 'ava';
import { type ModelServer, startModelServer } from '../stack/model-server.ts';
import type { StackModel } from '../stack/plan.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { openBatchClient } from '../support/batch-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import {
  askTurn,
  type ChatTurn,
  longText,
  manyChats,
  onePlaceOfEach,
  placesOf,
  prefixForms,
  requestOf,
  withFewClients,
} from '../support/prefix-chats.ts';
import { someOf } from '../support/size.ts';

const onPrem = { tier: 'guest', pool: 'default', backends: ['onprem-a', 'onprem-b'], endpoints: prefixForms };
const models: Record<string, StackModel> = {
  ...Object.fromEntries(prefixForms.map((form) => [`kept-${form}`, onPrem])),
  scattered: { ...onPrem, affinity: 'none' },
  accounted: { ...onPrem, affinity: 'account' },
  ...{ named: onPrem, shared: onPrem, batched: onPrem, restarted: onPrem },
  salted: { ...onPrem, backends: ['salted-a', 'salted-b'] },
};
/** No request waits for a limit, and few lines run at once. */
const free = { requests_at_once: 256, batch_requests_at_once: 3, priority: 10, model_tiers: ['guest'] };
const pace = { firstTokenMs: 5 };

const parts = new AsyncDisposableStack();
let stack: Stack;
let servers: readonly ModelServer[];
let salted: readonly ModelServer[];
let keys: KeyClient;

test.before(async () => {
  const start = async (name: string) => parts.use(await startModelServer({ name, ...pace }));
  salted = [await start('salted-a'), await start('salted-b')];
  const backends = salted.map(({ name, url }) => [name, { url, location: 'on-prem' as const, cache_salt: true }]);
  stack = parts.use(
    await startStack({
      ...{ ingresses: 2, workers: 2, plans: { free }, models, modelServers: pace },
      backends: Object.fromEntries(backends),
    }),
  );
  servers = stack.modelServers.slice(0, 2);
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

/** Each turn is sent to another ingress than the one before. */
async function ask(t: ExecutionContext, key: string, turn: ChatTurn): Promise<void> {
  const url = stack.ingresses[turn.turn % stack.ingresses.length]?.url ?? '';
  await askTurn(t, { url, key }, turn);
}

for (const form of someOf(['chat', 'messages'] as const, prefixForms)) {
  test.serial(`turns over ${form} stay at one backend at whichever ingress, and other chats use both`, async (t) => {
    const [key, model, turns] = [await keys.newKey(`kept-${form}`), `kept-${form}`, [1, 2, 3]];
    for (const turn of turns)
      await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn, form, stream: turn === 2 }));
    const places = onePlaceOfEach(t, servers, model);
    t.deepEqual([...places.keys()].sort(), manyChats.toSorted());
    for (const names of places.values()) t.is(names.length, turns.length);
  });
}

test.serial('a worker that starts later chooses the same backends', async (t) => {
  const [key, model] = [await keys.newKey('restarted'), 'restarted'];
  await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 1 }));
  const earlier = stack.workers.splice(0);
  await stack.startWorker();
  await Promise.all(earlier.map(({ process }) => process.stop()));
  await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: 2 }));
  for (const names of onePlaceOfEach(t, servers, model).values()) t.is(names.length, 2);
  await stack.startWorker();
});

test.serial('without affinity turns of chats move between backends', async (t) => {
  const [key, model] = [await keys.newKey('scattered'), 'scattered'];
  for (const turn of [1, 2, 3, 4]) {
    const order = manyChats.toSorted(() => Math.random() - 0.5);
    await Promise.all(order.map((chat) => ask(t, key, { model, chat, turn })));
  }
  const moved = [...placesOf(servers, model).values()].filter((names) => new Set(names).size > 1);
  t.log(`${moved.length} of ${manyChats.length} chats have moved`);
  t.true(moved.length > 0);
});

test.serial('lines of batches go where requests with the same beginning go', async (t) => {
  const [batches, model] = [await openBatchClient(stack, 'batched'), 'batched'];
  await withFewClients(manyChats, (chat) => ask(t, batches.apiKey, { model, chat, turn: 1 }));
  const lines = manyChats.map((chat) => {
    const { path, body } = requestOf({ model, chat, turn: 2 });
    return `${JSON.stringify({ custom_id: chat, method: 'POST', url: path, body })}\n`;
  });
  const ended = await batches.ended((await batches.create(lines.join(''))).id);
  t.like(ended, { status: 'completed', request_counts: { completed: manyChats.length, failed: 0 } });
  for (const names of onePlaceOfEach(t, servers, model).values()) t.is(names.length, 2);
});

test.serial('another account with the same prompt goes to the same backend, unless backends get a salt', async (t) => {
  const [one, other] = [await keys.newKey('sharing-one'), await keys.newKey('sharing-other')];
  for (const model of ['shared', 'salted'])
    for (const [index, key] of [one, other, one, other].entries())
      await withFewClients(manyChats, (chat) => ask(t, key, { model, chat, turn: index + 1 }));
  for (const names of onePlaceOfEach(t, servers, 'shared').values()) t.is(names.length, 4);
  const places = [...placesOf(salted, 'salted').values()];
  for (const [first, second, third, fourth] of places) t.deepEqual([third, fourth], [first, second]);
  t.is(places.length, manyChats.length);
  t.true(places.some(([first, second]) => first !== second));
});

test.serial('requests with one prompt_cache_key go to one backend, and the name is of its account', async (t) => {
  const model = 'named';
  const accounts = { one: await keys.newKey('named-one'), other: await keys.newKey('named-other') };
  for (const [account, key] of Object.entries(accounts))
    for (const turn of [1, 2, 3])
      await withFewClients(manyChats, (name) => {
        // The last prompt is too short for a key.
        const prompt = turn < 3 ? { system: longText(`Prompt ${turn} of ${name}, `) } : { isShort: true };
        const chat = `${account}-${name}`;
        return ask(t, key, { model, chat, turn, ...prompt, fields: { prompt_cache_key: name } });
      });
  const places = onePlaceOfEach(t, servers, model);
  t.is(places.size, 2 * manyChats.length);
  const placeOf = (chat: string) => places.get(chat)?.[0];
  t.true(manyChats.some((name) => placeOf(`one-${name}`) !== placeOf(`other-${name}`)));
});

test.serial('by account: all requests of an account go to one backend, and other accounts use both', async (t) => {
  const model = 'accounted';
  await withFewClients(manyChats, async (name) => {
    const key = await keys.newKey(`accounted-${name}`);
    for (const turn of [1, 2, 3]) {
      const prompt = turn < 3 ? { system: longText(`Prompt ${turn}, `) } : { isShort: true };
      await ask(t, key, { model, chat: name, turn, ...prompt });
    }
  });
  const places = onePlaceOfEach(t, servers, model);
  t.is(places.size, manyChats.length);
  for (const names of places.values()) t.is(names.length, 3);
});
