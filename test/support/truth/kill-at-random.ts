import { setTimeout as sleep } from 'node:timers/promises';
import type { RunningProcess, Stack } from '../../stack/stack.ts';
import type { Random } from '../random.ts';

export type RandomKills = AsyncDisposable & { killed: { ingresses: number; workers: number } };

const often = { from: 500, to: 2_000 };

/** The processes that are killed together. */
const oneOfEach = ['ingress', 'worker'] as const;
const strokes = [['ingress'], ['worker'], ['worker'], ['worker', 'worker'], oneOfEach] as const;

/**
 * Kills ingresses and workers of this stack with SIGKILL at random intervals until it is disposed of, and starts a new one for each; some
 * always keep running. The first kill takes one of each. Running processes are those in the stack's lists.
 */
export function killAtRandom(stack: Stack, random: Random, pauseMs = often): RandomKills {
  const ending = new AbortController();
  const killed = { ingresses: 0, workers: 0 };

  async function killOne(side: 'ingress' | 'worker'): Promise<void> {
    const [running, count]: [RunningProcess[], keyof typeof killed] =
      side === 'ingress' ? [stack.ingresses, 'ingresses'] : [stack.workers, 'workers'];
    const [victim] = running.splice(Math.floor(random() * running.length), 1);
    victim?.process.kill('SIGKILL');
    await victim?.process.exited;
    killed[count] += 1;
    await (side === 'ingress' ? stack.startIngress() : stack.startWorker());
  }

  async function killOneAfterAnother(): Promise<void> {
    let stroke: (typeof strokes)[number] = oneOfEach;
    while (!ending.signal.aborted) {
      const pause = random.between(pauseMs.from, pauseMs.to);
      const continues = await sleep(pause, true, { signal: ending.signal }).catch(() => false);
      if (continues) await Promise.all(stroke.map(killOne));
      stroke = random.oneOf(strokes);
    }
  }

  const killing = killOneAfterAnother();
  return {
    killed,
    async [Symbol.asyncDispose]() {
      ending.abort();
      await killing;
    },
  };
}
