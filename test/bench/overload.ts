import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { startStack } from '../stack/stack.ts';
import { unlimitedKey } from '../support/load.ts';
import type { Target } from './measure.ts';

/** What two on-prem replicas can have in hand at once, and how long each call takes: their capacity in requests a second. */
const slots = 16;
const serviceMs = 640;
const capacity = (slots * 1_000) / serviceMs;

/**
 * Rates are over the time until the last answer. `cpu`: the share of the whole machine's time that was not idle, the load's
 * own included.
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
 * Requests at a fixed pace, whether the ones before are answered or not, below what the backends can take and at three times
 * that. `failed` counts what is neither an answer nor a 503.
 */
export async function measureOverload({ seconds }: { seconds: number }): Promise<Record<string, Overload>> {
  await using stack = await startStack({
    modelServers: { firstTokenMs: serviceMs, splitBytes: false },
    backends: { 'onprem-a': { requests_at_once: slots / 2 }, 'onprem-b': { requests_at_once: slots / 2 } },
    models: { replicas: { tier: 'standard', pool: 'default', backends: ['onprem-a', 'onprem-b'] } },
  });
  const key = await unlimitedKey(stack);
  const target: Target = {
    url: `${stack.ingresses[0]?.url}/v1/chat/completions`,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'replicas', messages: [{ role: 'user', content: 'Hello' }] }),
  };
  await offer(target, { perSecond: capacity / 2, seconds: 2 });
  return {
    [`at 80% of ${capacity} requests/s`]: await offer(target, { perSecond: capacity * 0.8, seconds }),
    'at three times that': await offer(target, { perSecond: capacity * 3, seconds }),
  };
}

type Answer = { status: number; ms: number };

async function offer(
  target: Target,
  { perSecond, seconds }: { perSecond: number; seconds: number },
): Promise<Overload> {
  await using parts = new AsyncDisposableStack();
  const agent = parts.adopt(new Agent({ connections: 512 }), (opened) => opened.close());
  const cpuBefore = await cpuTimes();
  const startedAt = performance.now();
  const asked: Promise<Answer>[] = [];
  for (let sent = 0; sent < perSecond * seconds; sent++) {
    const wait = startedAt + (sent * 1_000) / perSecond - performance.now();
    if (wait > 1) await sleep(wait);
    asked.push(ask(target, agent));
  }
  const answers = await Promise.all(asked);
  const tookSeconds = (performance.now() - startedAt) / 1_000;
  const cpuAfter = await cpuTimes();
  const [served, refused] = [200, 503].map((status) => answers.filter((answer) => answer.status === status));
  const [servedMs, refusedMs] = [sortedMs(served), sortedMs(refused)];
  return {
    offeredPerSecond: perSecond,
    servedPerSecond: servedMs.length / tookSeconds,
    servedP50Ms: at(servedMs, 0.5),
    servedP99Ms: at(servedMs, 0.99),
    refusedPerSecond: refusedMs.length / tookSeconds,
    refusedP50Ms: at(refusedMs, 0.5),
    refusedP99Ms: at(refusedMs, 0.99),
    failed: answers.length - servedMs.length - refusedMs.length,
    cpu: 1 - (cpuAfter.idle - cpuBefore.idle) / (cpuAfter.all - cpuBefore.all),
  };
}

async function ask({ url, headers, body }: Target, dispatcher: Agent): Promise<Answer> {
  const startedAt = performance.now();
  try {
    const response = await request(url, { method: 'POST', headers, body, dispatcher });
    await response.body.text();
    return { status: response.statusCode, ms: performance.now() - startedAt };
  } catch {
    return { status: 0, ms: performance.now() - startedAt };
  }
}

function sortedMs(answers: readonly Answer[] = []): number[] {
  return answers.map(({ ms }) => ms).toSorted((one, other) => one - other);
}

function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}

/** Of all processors together, in ticks (proc(5)). */
async function cpuTimes(): Promise<{ all: number; idle: number }> {
  const [line = ''] = (await readFile('/proc/stat', 'utf8')).split('\n');
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  return { all: ticks.reduce((sum, each) => sum + each, 0), idle: (ticks[3] ?? 0) + (ticks[4] ?? 0) };
}
