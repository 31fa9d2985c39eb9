import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { unlimitedKey } from '../support/load.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { createRequestEvidence } from '../support/request-evidence.ts';
import { sized } from '../support/size.ts';
import { busyAnswers, type SlottedEngine, startSlottedEngine } from '../support/slotted-engine.ts';

const slots = 4;
const answerMs = 500;
const forMs = sized(4_000, 20_000);
const loadMs = sized(3_000, 40_000);
const kinds = Object.keys(busyAnswers);
const modelOf = (kind: string) => `full-${kinds.indexOf(kind)}`;
const nameOf = (kind: string, replica: number) => `${modelOf(kind)}-${replica}`;

const parts = new AsyncDisposableStack();
const engines = new Map<string, SlottedEngine>();
let stack: Stack;
let evidence: ReturnType<typeof createRequestEvidence>;
let key: string;

test.before(async () => {
  for (const kind of kinds)
    for (const replica of [1, 2]) {
      const whenFull = busyAnswers[kind] ?? (() => {});
      engines.set(nameOf(kind, replica), parts.use(await startSlottedEngine({ slots, answerMs, whenFull })));
    }
  engines.set('loading', parts.use(await startSlottedEngine({ isLoading: true })));
  const place = { tier: 'guest', pool: 'default' };
  const models = kinds.map((kind) => [
    modelOf(kind),
    { ...place, backends: [1, 2].map((replica) => nameOf(kind, replica)) },
  ]);
  stack = parts.use(
    await startStack({
      workers: 2,
      timeouts: { queue_ms: 120_000 },
      models: { ...Object.fromEntries(models), loading: { ...place, backends: ['loading'], queue_ms: 60_000 } },
      backends: Object.fromEntries([...engines].map(([name, { url }]) => [name, { url }])),
    }),
  );
  const store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
  evidence = createRequestEvidence(stack, store);
  key = await unlimitedKey(stack);
});

test.after.always(() => parts.disposeAsync());

async function ask(model: string): Promise<number> {
  const signal = AbortSignal.timeout(200_000);
  const response = await chat({ url: stack.ingresses[0]?.url ?? '', key, model, question: 'Hi', signal });
  await response.text();
  return response.status;
}

async function breakersOf(model: string): Promise<string[]> {
  return [...new Set(Object.values(await evidence.breakers(model)))];
}

faultTest(
  test.serial,
  {
    id: '17u',
    done: 'three times as many clients as two engines have slots, which say that they are full, each kind in its way',
    promised: 'all are answered, no breaker opens, and the engines work nearly as much as they can',
  },
  async (t, see) => {
    t.timeout(300_000);
    for (const kind of kinds) see(`${kind}: ${await loadTo(t, kind)}`);
  },
);

async function loadTo(t: ExecutionContext, kind: (typeof kinds)[number]): Promise<string> {
  const both = [1, 2].map((replica) => engines.get(nameOf(kind, replica)));
  const until = performance.now() + forMs;
  const statuses: number[] = [];
  const client = async () => {
    while (performance.now() < until) statuses.push(await ask(modelOf(kind)));
  };
  const begunAt = performance.now();
  await Promise.all(Array.from({ length: 3 * 2 * slots }, client));
  const took = performance.now() - begunAt;
  t.deepEqual([...new Set(statuses)], [200]);
  t.deepEqual(await breakersOf(modelOf(kind)), ['closed']);
  const refused = both.flatMap((engine) => engine?.calls().filter(({ outcome }) => outcome === 'refused') ?? []);
  t.true(refused.length > 0, 'they were full');
  const most = (2 * slots * took) / answerMs;
  const share = Math.round((100 * statuses.length) / most);
  return `${statuses.length} of ${statuses.length} answered, ${share} % of what the engines can do; ${refused.length} calls refused`;
}

faultTest(
  test.serial,
  {
    id: '17v',
    done: 'a model is loaded while requests for it come in',
    promised: 'they wait, and are answered when it is loaded; no breaker opens',
  },
  async (t, see) => {
    const asked = Promise.all(Array.from({ length: 5 }, () => ask('loading')));
    await sleep(loadMs);
    const refusals = engines.get('loading')?.calls().length ?? 0;
    engines.get('loading')?.load();
    t.deepEqual(await asked, Array(5).fill(200));
    t.deepEqual(await breakersOf('loading'), ['closed']);
    see(`5 of 5 answered after ${loadMs / 1_000} s of loading, in which the engine was asked ${refusals} times`);
  },
);
