import { randomUUID } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { openStore } from '../../shared/process/open-store.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { unlimitedKey } from '../support/load.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { createRequestEvidence } from '../support/request-evidence.ts';
import { poison, type SlottedEngine, silence, startSlottedEngine } from '../support/slotted-engine.ts';

const replicas = ['one', 'two', 'three', 'four'];
const place = { tier: 'guest', pool: 'default' };

const parts = new AsyncDisposableStack();
let stack: Stack;
let evidence: ReturnType<typeof createRequestEvidence>;
const engines = new Map<string, SlottedEngine>();
const keys: string[] = [];

test.before(async () => {
  for (const name of [...replicas, 'cloudy']) engines.set(name, parts.use(await startSlottedEngine()));
  const backends = [...engines].map(([name, { url }]) => {
    const location = name === 'cloudy' ? ('cloud' as const) : ('on-prem' as const);
    return [name, { url, location }] as const;
  });
  stack = parts.use(
    await startStack({
      timeouts: { first_token_ms: 1_000, request_ms: 60_000 },
      models: {
        'four-and-a-cloud': { ...place, backends: [...replicas, 'cloudy'] },
        'two-of-one': { ...place, backends: replicas.slice(0, 2) },
        'one-of-one': { ...place, backends: ['three'] },
        ...Object.fromEntries(['guests', 'agent', 'silent'].map((name) => [name, { ...place, backends: replicas }])),
      },
      backends: Object.fromEntries(backends),
      guests: { guest_calls_per_minute: 100_000, guest_mints_per_hour: 100 },
      plans: { 'guest-device': { requests_per_minute: 100_000, requests_per_day: 100_000, model_tiers: ['guest'] } },
    }),
  );
  const store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog()));
  evidence = createRequestEvidence(stack, store);
  for (const account of ['alice', 'bob', 'carol']) keys.push(await unlimitedKey(stack, account));
});

test.after.always(() => parts.disposeAsync());

async function ask(model: string, key = '', question = 'Hi'): Promise<{ status: number; requestId: string }> {
  const signal = AbortSignal.timeout(60_000);
  const response = await chat({ url: stack.ingresses[0]?.url ?? '', key, model, question, stream: true, signal });
  const text = await response.text();
  const isWhole = response.status !== 200 || text.endsWith('data: [DONE]\n\n');
  return { status: isWhole ? response.status : 599, requestId: response.headers.get('x-request-id') ?? '' };
}

const poisoned = () => [...engines].map(([name, engine]) => [name, callsOf(engine, 'poisoned')] as const);
const callsOf = (engine: SlottedEngine | undefined, outcome: string) =>
  engine?.calls().filter((call) => call.outcome === outcome).length ?? 0;
const allClosed = async (t: ExecutionContext, model: string) =>
  t.deepEqual([...new Set(Object.values(await evidence.breakers(model)))], ['closed']);

faultTest(
  test.serial,
  {
    id: '17p',
    done: 'a request that no backend can digest meets four replicas and a cloud',
    promised: 'two replicas see it, then the cloud, once each; then 503',
  },
  async (t, see) => {
    const { status, requestId } = await ask('four-and-a-cloud', keys[0], `Hello, ${poison}`);
    t.is(status, 503);
    const { attempts } = await evidence.record(requestId);
    t.is(attempts.length, 3);
    t.is(new Set(attempts.map(({ backend }) => backend)).size, 3);
    t.is(attempts.at(-1)?.backend, 'cloudy');
    const seen = poisoned().filter(([, count]) => count > 0);
    t.deepEqual(
      seen.map(([, count]) => count),
      [1, 1, 1],
    );
    await allClosed(t, 'four-and-a-cloud');
    see(`${attempts.map(({ backend }) => backend).join(', ')} saw it`);
  },
);

faultTest(
  test.serial,
  {
    id: '17q',
    done: 'two guest devices send requests that no backend can digest',
    promised: 'they are one account: no breaker opens, and every other request is answered',
  },
  async (t, see) => {
    const devices = await Promise.all([1, 2].map(() => guestKey()));
    const others: number[] = [];
    for (let round = 0; round < 15; round++) {
      await Promise.all(devices.map((device) => ask('guests', device, poison)));
      others.push((await ask('guests', keys[round % 3])).status);
    }
    t.deepEqual([...new Set(others)], [200]);
    await allClosed(t, 'guests');
    see(`${others.length} of ${others.length} other requests answered, and no breaker open`);
  },
);

faultTest(
  test.serial,
  {
    id: '17r',
    done: 'an agent repeats its poisoned history beside healthy accounts',
    promised: 'these are answered, and no breaker opens',
  },
  async (t, see) => {
    let isOver = false;
    const agent = (async () => {
      let sent = 0;
      for (; !isOver; sent++) await ask('agent', keys[0], poison);
      return sent;
    })();
    const others: number[] = [];
    for (let round = 0; round < 100; round++) others.push((await ask('agent', keys[1 + (round % 2)])).status);
    isOver = true;
    t.deepEqual([...new Set(others)], [200]);
    await allClosed(t, 'agent');
    see(`${others.length} of ${others.length} answered beside ${await agent} poisoned requests`);
  },
);

faultTest(
  test.serial,
  {
    id: '17s',
    done: 'requests of one account stay silent on idle backends',
    promised: 'they fail over after first_token_ms; others are answered, and no breaker opens',
  },
  async (t, see) => {
    const silent = Promise.all(Array.from({ length: 6 }, () => ask('silent', keys[0], silence)));
    await silent;
    const others = await Promise.all(Array.from({ length: 20 }, (_, index) => ask('silent', keys[1 + (index % 2)])));
    t.deepEqual([...new Set(others.map(({ status }) => status))], [200]);
    await allClosed(t, 'silent');
    see(`${others.length} of ${others.length} answered after 6 silent requests`);
  },
);

faultTest(
  test.serial,
  {
    id: '17t',
    done: 'a backend is broken, and one account or two use it',
    promised: 'one account: it is found within ten requests, and asked last; two accounts: its breaker opens',
  },
  async (t, see) => {
    const broken = engines.get('one');
    broken?.break(true);
    const before = callsOf(broken, 'poisoned');
    for (let requests = 0; requests < 40; requests++) t.is((await ask('two-of-one', keys[0])).status, 200);
    const asked = callsOf(broken, 'poisoned') - before;
    t.true(asked >= 1 && asked <= 10, `${asked} calls`);
    await allClosed(t, 'two-of-one');
    broken?.break(false);

    const other = engines.get('three');
    other?.break(true);
    const isOpen = async () => (await evidence.breakers('one-of-one')).three !== 'closed';
    let rounds = 0;
    for (; rounds < 20 && !(await isOpen()); rounds++)
      await Promise.all([ask('one-of-one', keys[1]), ask('one-of-one', keys[2])]);
    t.true(await isOpen());
    see(`one account: ${asked} of 40 requests met it; two: its breaker opened after ${rounds} requests of each`);
  },
);

async function guestKey(): Promise<string> {
  const response = await fetch(`${stack.ingresses[0]?.url}/v1/keys/guest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ device_id: randomUUID() }),
  });
  return String(((await response.json()) as { key?: string }).key); // a response of the service itself
}
