import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { type Stack, startStack } from '../stack/stack.ts';
import { unlimitedKey } from '../support/load.ts';
import { seededRandom } from '../support/random.ts';
import type { Target } from './measure.ts';
import { at, offer, sortedMs } from './offer.ts';

type Percentiles = { p50Ms: number; p95Ms: number };

/** One figure per round. `equal`: how many answers each of two accounts got. */
export type WaitTimes = {
  otherModel: Record<'alone' | 'beside a full model' | 'beside a silent model', Percentiles[]>;
  otherAccount: Record<'alone' | 'beside 500 requests', Percentiles[]>;
  equal: { one: number; other: number };
};

const slots = 8;
const serviceMs = 400;
const crowd = 200;

/** Two workers of one pool with three models, each on its own backend: one has free slots, one is full, and one never answers. */
function openPool(): Promise<Stack> {
  const ofPool = (backend: string) => ({ tier: 'guest', pool: 'default', backends: [backend] });
  return startStack({
    workers: 2,
    timeouts: { queue_ms: 600_000, first_token_ms: 600_000 },
    models: { mine: ofPool('onprem-a'), full: ofPool('onprem-b'), silent: ofPool('cloud') },
    backends: {
      'onprem-a': { requests_at_once: 4 * slots },
      'onprem-b': { requests_at_once: 2 },
      cloud: { requests_at_once: slots },
    },
    modelServers: { firstTokenMs: serviceMs, splitBytes: false },
  });
}

export async function measureWaiting({ rounds, seconds }: { rounds: number; seconds: number }): Promise<WaitTimes> {
  const accounts = await measureAccounts({ rounds, seconds });
  return { otherModel: await measureModels({ rounds, seconds }), ...accounts };
}

/** In turns, so that other load of the machine affects all of them. */
async function measureModels({
  rounds,
  seconds,
}: {
  rounds: number;
  seconds: number;
}): Promise<WaitTimes['otherModel']> {
  await using stack = await openPool();
  stack.modelServers[2].fail({ hang: true });
  const target = await targetOf(stack, 'mine', 'alice');
  const crowds = {
    'beside a full model': await targetOf(stack, 'full', 'first crowd'),
    'beside a silent model': await targetOf(stack, 'silent', 'second crowd'),
  };
  const measure = async (seed: number): Promise<Percentiles> => {
    const { answers } = await offer(target, { perSecond: 2 * slots, seconds, random: seededRandom(seed) });
    const ms = sortedMs(answers, 200);
    if (ms.length < answers.length) throw new Error(`${answers.length - ms.length} requests were not answered`);
    return { p50Ms: at(ms, 0.5), p95Ms: at(ms, 0.95) };
  };
  const measured: WaitTimes['otherModel'] = { alone: [], 'beside a full model': [], 'beside a silent model': [] };
  await measure(0);
  for (let round = 1; round <= rounds; round++) {
    measured.alone.push(await measure(round));
    for (const name of ['beside a full model', 'beside a silent model'] as const) {
      const leave = await ask(crowds[name], crowd);
      measured[name].push(await measure(round));
      await leave();
    }
    console.error(`waiting: ${round} of ${rounds} beside other models`);
  }
  return measured;
}

async function measureAccounts({ rounds, seconds }: { rounds: number; seconds: number }) {
  await using stack = await startStack({
    workers: 2,
    timeouts: { queue_ms: 600_000 },
    models: { shared: { tier: 'guest', pool: 'default', backends: ['onprem-a'] } },
    backends: { 'onprem-a': { requests_at_once: slots } },
    modelServers: { firstTokenMs: serviceMs, splitBytes: false },
  });
  const few = await targetOf(stack, 'shared', 'few');
  const many = await targetOf(stack, 'shared', 'many');
  const otherAccount: WaitTimes['otherAccount'] = { alone: [], 'beside 500 requests': [] };
  await waits(few, seconds);
  for (let round = 1; round <= rounds; round++) {
    otherAccount.alone.push(await waits(few, seconds));
    const leave = await ask(many, 500);
    otherAccount['beside 500 requests'].push(await waits(few, seconds));
    await leave();
    console.error(`waiting: ${round} of ${rounds} beside another account`);
  }
  return { otherAccount, equal: await shareEqually([few, many], 3 * seconds) };
}

/** Sends one request after another, with a pause. Returns how long each was queued. */
async function waits(target: Target, seconds: number): Promise<Percentiles> {
  const agent = new Agent();
  const ms: number[] = [];
  const until = performance.now() + seconds * 1_000;
  while (performance.now() < until) {
    const { headers } = await answer(target, agent);
    ms.push(Number(headers['x-svc-queue-ms']));
    await sleep(20);
  }
  await agent.close();
  ms.sort((one, other) => one - other);
  return { p50Ms: at(ms, 0.5), p95Ms: at(ms, 0.95) };
}

async function shareEqually(targets: readonly Target[], seconds: number): Promise<WaitTimes['equal']> {
  const agent = new Agent({ connections: 512 });
  const until = performance.now() + seconds * 1_000;
  const counts = await Promise.all(
    targets.map(async (target) => {
      let answers = 0;
      const client = async () => {
        for (; performance.now() < until; answers++) await answer(target, agent);
      };
      await Promise.all(Array.from({ length: 40 }, client));
      return answers;
    }),
  );
  await agent.close();
  const [one = 0, other = 0] = counts;
  return { one, other };
}

async function answer({ url, headers, body }: Target, dispatcher: Agent, signal?: AbortSignal) {
  const response = await request(url, { method: 'POST', headers, body, dispatcher, ...(signal && { signal }) });
  const text = await response.body.text();
  if (response.statusCode !== 200) throw new Error(`a request was answered with ${response.statusCode}: ${text}`);
  return response;
}

/** Sends this many requests at once. They are aborted when the returned function is called. */
async function ask(target: Target, count: number): Promise<() => Promise<void>> {
  const leaving = new AbortController();
  const agent = new Agent({ connections: count, headersTimeout: 0, bodyTimeout: 0 });
  const asking = Array.from({ length: count }, () => answer(target, agent, leaving.signal).catch(() => {}));
  await sleep(1_000);
  return async function leave() {
    leaving.abort();
    await Promise.all(asking);
    await agent.destroy();
    await sleep(1_000);
  };
}

async function targetOf(stack: Stack, model: string, account: string): Promise<Target> {
  return {
    url: `${stack.ingresses[0]?.url}/v1/chat/completions`,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await unlimitedKey(stack, account)}` },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
  };
}
