import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { Target } from './measure.ts';

/** `status` 0: no answer came. */
export type Answer = { status: number; ms: number };

type Pace = {
  perSecond: number;
  seconds: number;
  /** Given, requests come by chance and as many on average, as those of many clients do; left out, one as long after another. */
  random?: () => number;
};

/** Requests at a pace of their own, whether the ones before are answered or not; resolves when the last one is. */
export async function offer(target: Target, { perSecond, seconds, random }: Pace) {
  await using parts = new AsyncDisposableStack();
  const agent = parts.adopt(new Agent({ connections: 512 }), (opened) => opened.close());
  const startedAt = performance.now();
  const asked: Promise<Answer>[] = [];
  for (let dueMs = 0, sent = 0; sent < perSecond * seconds; sent++) {
    const wait = startedAt + dueMs - performance.now();
    if (wait > 1) await sleep(wait);
    asked.push(ask(target, agent));
    dueMs += ((random === undefined ? 1 : -Math.log(1 - random())) * 1_000) / perSecond;
  }
  const answers = await Promise.all(asked);
  return { answers, tookSeconds: (performance.now() - startedAt) / 1_000 };
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

/** The times of those with this status, from the shortest to the longest. */
export function sortedMs(answers: readonly Answer[], wanted: number): number[] {
  return answers.flatMap(({ status, ms }) => (status === wanted ? [ms] : [])).toSorted((one, other) => one - other);
}

export function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}
