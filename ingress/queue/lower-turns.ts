import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { halfOfTurns, scoreOfPriority, scoresOf, turnsAheadMax } from './job-priority.ts';

const script = loadLua(new URL('./lower-turns.lua', import.meta.url), {
  keys: 'jobsKey',
  args: 'lowest highest',
  constants: { halfOfTurns, turnsAheadMax, scoreOfPriority },
});

/** Creates a function that lowers the turns of this rank that are too high in the queue with this key. Idempotent. */
export function createLowerTurns(redis: Redis): (key: string, rank: number) => Promise<void> {
  const run = loadScript(redis, script);
  return async function lowerTurns(jobsKey, rank) {
    const [lowest, highest] = scoresOf(rank);
    await run({ jobsKey, lowest, highest });
  };
}
