import test from 'ava';
import { at, offer, sortedMs } from '../bench/offer.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';

/** The number of calls that two replicas run at once, and the duration of each: their capacity in requests a second. */
const slots = 16;
const serviceMs = 640;
const capacity = (slots * 1_000) / serviceMs;
const floodAtOnce = slots * 1.5;

function openStack(): Promise<Stack> {
  return startStack({
    modelServers: { firstTokenMs: serviceMs, splitBytes: false },
    backends: { 'onprem-a': { requests_at_once: slots / 2 }, 'onprem-b': { requests_at_once: slots / 2 } },
    models: { replicas: { tier: 'standard', pool: 'default', backends: ['onprem-a', 'onprem-b'] } },
    plans: {
      crowd: { priority: 100, model_tiers: ['guest', 'standard'] },
      first: { priority: 1, model_tiers: ['guest', 'standard'] },
      narrow: { priority: 100, requests_at_once: floodAtOnce, model_tiers: ['guest', 'standard'] },
    },
    // Half as much again as the backends take, so that none of their slots waits for a job.
    env: { CONCURRENCY: String(slots * 1.5), QUEUE_DEPTH_MAX: String(4 * slots) },
  });
}

function targets(stack: Stack) {
  const keys = createKeyClient(stack);
  return async (account: string, plan: string) => {
    const key = await keys.newKey(account);
    await keys.change(`user:${account}`, { plan });
    return {
      url: `${stack.ingresses[0]?.url}/v1/chat/completions`,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: 'replicas', messages: [{ role: 'user', content: 'Hello' }] }),
    };
  };
}

type Offered = Awaited<ReturnType<typeof offer>>;

/** Responses a second of both, as a share of the capacity of the backends. */
function goodputOf(...both: readonly Offered[]): number {
  const served = both.reduce((sum, { answers }) => sum + sortedMs(answers, 200).length, 0);
  return served / Math.max(...both.map(({ tookSeconds }) => tookSeconds)) / capacity;
}

const othersThan = ({ answers }: Offered, ...statuses: readonly number[]) =>
  answers.filter(({ status }) => !statuses.includes(status)).length;
const inWords = (sorted: readonly number[]) =>
  `p50 ${at(sorted, 0.5).toFixed(0)} ms, p99 ${at(sorted, 0.99).toFixed(0)} ms`;

faultTest(
  test.serial,
  {
    id: '23a',
    done: 'clients send three times the capacity of the backends for 60 s; one account of a plan with priority sends a tenth',
    promised:
      'requests past the bound of the queue are refused, 503, without waiting in it; of admitted requests, those with priority wait less',
  },
  async (t, see) => {
    t.timeout(240_000);
    await using stack = await openStack();
    const targetOf = targets(stack);
    const first = await targetOf('first', 'first');
    // A single account would be limited to a quarter of the queue, with 429.
    const crowd = await Promise.all(Array.from({ length: 16 }, (_, index) => targetOf(`crowd${index}`, 'crowd')));
    for (const one of crowd) await offer(one, { perSecond: capacity / 2, seconds: 0.125 });

    const [few, ...crowds] = await Promise.all([
      offer(first, { perSecond: capacity / 10, seconds: 60 }),
      ...crowd.map((one) => offer(one, { perSecond: (capacity * 3) / crowd.length, seconds: 60 })),
    ]);
    const tookSeconds = Math.max(...crowds.map((one) => one.tookSeconds));
    const many = { answers: crowds.flatMap(({ answers }) => answers), tookSeconds };
    const goodput = goodputOf(many, few);
    const [refusedMs, manyMs, fewMs] = [
      sortedMs(many.answers, 503),
      sortedMs(many.answers, 200),
      sortedMs(few.answers, 200),
    ];
    see(`${Math.round(goodput * 100)} % of the capacity of ${capacity} requests a second was served`);
    see(`${refusedMs.length} refused, ${inWords(refusedMs)}`);
    see(`with priority ${fewMs.length} of ${few.answers.length} served, ${inWords(fewMs)}; without ${inWords(manyMs)}`);
    // On a busy machine the requests of one account may come all at once, and be more than its quarter of the queue.
    t.is(othersThan(many, 200, 429, 503) + othersThan(few, 200, 503), 0);
    t.true(at(refusedMs, 0.5) < at(manyMs, 0.5), 'refusals do not wait in the queue');
    t.true(fewMs.length > 0 && at(fewMs, 0.5) < at(manyMs, 0.5), 'requests with priority wait less');
  },
);

faultTest(
  test.serial,
  {
    id: '23b',
    done: 'one account, whose plan has requests_at_once, sends three times the capacity of the backends for 20 s; another without higher priority sends a tenth',
    promised: 'the first is limited by its plan with 429, and every request of the other is served',
  },
  async (t, see) => {
    t.timeout(120_000);
    await using stack = await openStack();
    const targetOf = targets(stack);
    const [flooding, modest] = [await targetOf('flooding', 'narrow'), await targetOf('modest', 'crowd')];
    await offer(flooding, { perSecond: capacity / 2, seconds: 2 });

    const [flood, few] = await Promise.all([
      offer(flooding, { perSecond: capacity * 3, seconds: 20 }),
      offer(modest, { perSecond: capacity / 10, seconds: 20 }),
    ]);
    const [floodMs, fewMs] = [sortedMs(flood.answers, 200), sortedMs(few.answers, 200)];
    const refused = sortedMs(flood.answers, 429).length;
    const goodput = goodputOf(flood, few);
    see(`of the other account ${fewMs.length} of ${few.answers.length} served, ${inWords(fewMs)}`);
    see(`of the first ${floodMs.length} of ${flood.answers.length} served, ${inWords(floodMs)}; ${refused} got 429`);
    see(`${Math.round(goodput * 100)} % of the capacity of ${capacity} requests a second was served`);
    t.is(fewMs.length, few.answers.length, 'each is served');
    t.true(refused > 0, 'the first sends more than its plan allows');
    t.is(othersThan(flood, 200, 429), 0);
  },
);
