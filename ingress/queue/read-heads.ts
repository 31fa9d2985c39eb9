import { modelQueue } from '../../shared/jobs/queues.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { halfOfTurns, ranksOf, scoreOfPriority, scoresOf, turnOf, turnsAheadMax } from './job-priority.ts';

const script = loadLua(new URL('./lower-turns.lua', import.meta.url), {
  keys: 'jobsKey',
  args: 'lowest highest',
  constants: { halfOfTurns, turnsAheadMax, scoreOfPriority },
});

/** The turn of the job that is first of its rank in the queue of a model. */
export type Head = { rank: number; turn: number };

/** Reads the heads of the ranks in which jobs wait. Lowers the turns of a rank first if they are too high. */
export function createReadHeads(redis: Redis): (model: string, plans: PlanFile['plans']) => Promise<Head[]> {
  const lowerTurns = createLowerTurns(redis);

  async function readHead(key: string, rank: number): Promise<Head[]> {
    const [min, max] = scoresOf(rank);
    const [[, first], [, last]] = await Promise.all([
      redis.zrange(key, String(min), String(max), 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES'),
      redis.zrange(key, String(max), String(min), 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES'),
    ]);
    if (first === undefined || last === undefined) return [];
    const [turn, end] = [turnOfScore(first), turnOfScore(last)];
    if (turn < halfOfTurns && end < turn + turnsAheadMax) return [{ rank, turn }];
    await lowerTurns(key, rank);
    return readHead(key, rank);
  }

  return async function readHeads(model, plans) {
    const { prefix, name } = modelQueue(model, 'interactive');
    const heads = await Promise.all(ranksOf(plans).map((rank) => readHead(`${prefix}:${name}:prioritized`, rank)));
    return heads.flat();
  };
}

function turnOfScore(score: string): number {
  return turnOf(Math.floor(Number(score) / scoreOfPriority));
}

/** Creates a function that lowers the turns of this rank that are too high in the queue with this key. Idempotent. */
function createLowerTurns(redis: Redis): (key: string, rank: number) => Promise<void> {
  const run = loadScript(redis, script);
  return async function lowerTurns(jobsKey, rank) {
    const [lowest, highest] = scoresOf(rank);
    await run({ jobsKey, lowest, highest });
  };
}
