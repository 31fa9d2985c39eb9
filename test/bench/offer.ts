import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { Target } from './measure.ts';

/** `status` 0: there was no answer. */
export type Answer = { status: number; ms: number };

type Pace = {
  perSecond: number;
  seconds: number;
  /** If given, requests come at random times with this average rate, as those of many clients do. Default: at equal intervals. */
  random?: () => number;
};

/** Sends requests at a fixed rate, whether or not earlier ones are answered. Resolves when the last one is answered. */
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

/** The times of the answers with this status, from the shortest to the longest. */
export function sortedMs(answers: readonly Answer[], wanted: number): number[] {
  return answers.flatMap(({ status, ms }) => (status === wanted ? [ms] : [])).toSorted((one, other) => one - other);
}

export function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}
