import { startStack } from '../stack/stack.ts';
import { unlimitedKey } from '../support/load.ts';
import type { Target } from './measure.ts';
import { at, offer, sortedMs } from './offer.ts';
import { busyShare, machineTicks } from './processes.ts';

/** The slots of two on-prem replicas and the duration of each call, which give their capacity in requests a second. */
const slots = 16;
const serviceMs = 640;
const accounts = 8;
const capacity = (slots * 1_000) / serviceMs;

/**
 * Rates are over the time until the last answer. `cpu`: the share of the complete machine's time that was not idle, including the load
 * generator.
 */
export type Overload = {
  offeredPerSecond: number;
  servedPerSecond: number;
  servedP50Ms: number;
  servedP99Ms: number;
  refusedPerSecond: number;
  refusedP50Ms: number;
  refusedP99Ms: number;
  failed: number;
  cpu: number;
};

/**
 * Sends requests at a fixed rate, whether or not earlier ones are answered: below the capacity of the backends, and at three times that.
 * `failed` counts everything except answers and 503s.
 */
export async function measureOverload({ seconds }: { seconds: number }): Promise<Record<string, Overload>> {
  await using stack = await startStack({
    modelServers: { firstTokenMs: serviceMs, splitBytes: false },
    backends: { 'onprem-a': { requests_at_once: slots / 2 }, 'onprem-b': { requests_at_once: slots / 2 } },
    models: { replicas: { tier: 'standard', pool: 'default', backends: ['onprem-a', 'onprem-b'] } },
  });
  const targetOf = async (account: string): Promise<Target> => ({
    url: `${stack.ingresses[0]?.url}/v1/chat/completions`,
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${await unlimitedKey(stack, account)}`,
    },
    body: JSON.stringify({ model: 'replicas', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  // One account alone would be limited to a quarter of the queue, with 429.
  const targets = await Promise.all(Array.from({ length: accounts }, (_, index) => targetOf(`crowd${index}`)));
  for (const target of targets) await offer(target, { perSecond: capacity / 2, seconds: 2 / accounts });
  return {
    [`at 80% of ${capacity} requests/s`]: await overload(targets, { perSecond: capacity * 0.8, seconds }),
    'at three times that': await overload(targets, { perSecond: capacity * 3, seconds }),
  };
}

async function overload(targets: readonly Target[], pace: { perSecond: number; seconds: number }): Promise<Overload> {
  const before = await machineTicks();
  const offered = await Promise.all(
    targets.map((target) => offer(target, { ...pace, perSecond: pace.perSecond / targets.length })),
  );
  const answers = offered.flatMap((one) => one.answers);
  const tookSeconds = Math.max(...offered.map((one) => one.tookSeconds));
  const after = await machineTicks();
  const [servedMs, refusedMs] = [sortedMs(answers, 200), sortedMs(answers, 503)];
  return {
    offeredPerSecond: pace.perSecond,
    servedPerSecond: servedMs.length / tookSeconds,
    servedP50Ms: at(servedMs, 0.5),
    servedP99Ms: at(servedMs, 0.99),
    refusedPerSecond: refusedMs.length / tookSeconds,
    refusedP50Ms: at(refusedMs, 0.5),
    refusedP99Ms: at(refusedMs, 0.99),
    failed: answers.length - servedMs.length - refusedMs.length,
    cpu: busyShare(before, after),
  };
}
