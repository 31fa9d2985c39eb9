import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { type AskedRequest, ask } from '../truth/ask.ts';
import type { Witnesses } from '../truth/open-witnesses.ts';

const clients = 4;
/** The pause between a response and the next question, so that these clients add little load. */
const pauseMs = 50;

export type Meanwhile = {
  asked: readonly AskedRequest[];
  /** Sorted from shortest to longest. */
  sortedMs: readonly number[];
};

/** Clients that send one question after another while `work` runs, and their waiting times. */
export async function askMeanwhile(witnesses: Witnesses, during: () => Promise<unknown>): Promise<Meanwhile> {
  const agent = new Agent();
  const asked: AskedRequest[] = [];
  const tookMs: number[] = [];
  let isOver = false;
  const asking = Array.from({ length: clients }, async (_, client) => {
    do {
      const askedAt = performance.now();
      asked.push(
        await ask({ ...witnesses.wish(`Meanwhile ${client} ${asked.length}?`), stream: client % 2 === 0 }, agent),
      );
      tookMs.push(performance.now() - askedAt);
      await sleep(pauseMs);
    } while (!isOver);
  });
  try {
    await during();
  } finally {
    isOver = true;
    await Promise.all(asking);
    await agent.close();
  }
  return { asked, sortedMs: tookMs.sort((one, other) => one - other) };
}

export function percentileMs({ sortedMs }: Meanwhile, share: number): number {
  return Math.round(sortedMs[Math.floor(sortedMs.length * share)] ?? Number.NaN);
}

export function inWords(meanwhile: Meanwhile): string {
  const { asked } = meanwhile;
  const at = (share: number) => percentileMs(meanwhile, share);
  const answered = asked.filter(({ ending }) => ending === 'answered').length;
  return `${answered} of ${asked.length} others answered, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
}
