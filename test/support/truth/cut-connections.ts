import { setTimeout as sleep } from 'node:timers/promises';
import { nodesOf, openRedis } from '../open-redis.ts';
import type { Random } from '../random.ts';

export type RandomCuts = AsyncDisposable & { cuts(): number };

const pauseMs = { from: 2_000, to: 5_000 };

/**
 * Ends every connection to this Redis every few seconds until it is disposed of, so that replies are lost and commands are sent a second
 * time.
 */
export function cutConnectionsAtRandom(redisUrl: string, random: Random): RandomCuts {
  const ending = new AbortController();
  const redis = openRedis(redisUrl);
  let cuts = 0;

  async function cutAgainAndAgain(): Promise<void> {
    while (!ending.signal.aborted) {
      const pause = random.between(pauseMs.from, pauseMs.to);
      await sleep(pause, undefined, { signal: ending.signal }).catch(() => undefined);
      const nodes = await nodesOf(redis);
      await Promise.all(nodes.map((node) => node.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')));
      cuts += 1;
    }
    redis.disconnect();
  }

  const cutting = cutAgainAndAgain();
  return {
    cuts: () => cuts,
    async [Symbol.asyncDispose]() {
      ending.abort();
      await cutting;
    },
  };
}
