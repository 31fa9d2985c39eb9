import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';
import { halfOfTurns, scoreOfPriority, scoresOf, turnsAheadMax } from './job-priority.ts';

/** Creates a function that lowers the turns of this rank that are too high in the queue with this key. Idempotent. */
export function createLowerTurns(redis: Redis): (key: string, rank: number) => Promise<void> {
  const lua = loadLua(new URL('./lower-turns.lua', import.meta.url), { halfOfTurns, turnsAheadMax, scoreOfPriority });
  const run = loadScript(redis, { name: 'svcLowerTurns', lua, numberOfKeys: 1 });
  return async function lowerTurns(key, rank) {
    await run([key], scoresOf(rank));
  };
}
