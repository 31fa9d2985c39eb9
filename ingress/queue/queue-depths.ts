import type { Redis } from 'ioredis';
import type { QueueChoice } from '../../shared/jobs/queue-choice.ts';
import { modelQueue } from '../../shared/jobs/queues.ts';
import { type Lane, lanes } from '../../shared/lane.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { loadScript } from '../../shared/redis/connections.ts';
import { countingKey, queueDepthsKey } from '../../shared/redis/keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';
import { halfOfTurns, latestOf, ranksOf, scoreOfPriority, scoresOf, turnOf, turnsAheadMax } from './job-priority.ts';

/**
 * How many jobs wait, and the latest turn that is known to be taken of each rank in a model's queue: that before its head.
 * `begunAt`: when the count began, at the latest, by `performance.now()` of this process.
 */
export type Depths = {
  begunAt: number;
  of: (model: string, lane: Lane) => number;
  takenOf: (model: string, rank: number) => number | undefined;
};

/** The latest turn of a rank in a model's queue that one ingress knows to be taken. */
export type TakenTurn = { model: string; rank: number; turn: number };

export interface QueueDepths {
  /**
   * A count that began at most about `ageMsMax` ago, whichever ingress has counted. What this ingress knows beyond it, `taken`, is
   * stored for the others: while a queue is empty they cannot read it from its head. Fails while Redis is away.
   */
  read(ageMsMax: number, taken?: readonly TakenTurn[]): Promise<Depths>;
}

const lifeMs = 60_000;

/**
 * Counts the jobs of every queue, once for all ingresses: the one that finds the latest count too old counts, and the others read
 * what it has found. So what the others ask of Redis does not grow with the number of models.
 */
export function createQueueDepths({
  redis,
  planFile,
  choice,
  now = () => performance.now(),
}: {
  redis: Redis;
  planFile: Pick<PlanFile, 'models' | 'plans'>;
  choice: Pick<QueueChoice, 'queueFor'>;
  now?: () => number;
}): QueueDepths {
  const counted = Object.keys(planFile.models).flatMap((model) => lanes.map((lane) => ({ model, lane })));
  const ranks = ranksOf(planFile.plans);
  const lowerTurns = createLowerTurns(redis);

  async function count(begunAt: number, known: Record<string, string>): Promise<Record<string, string>> {
    const counts = await Promise.all(
      counted.map(async ({ model, lane }) => {
        const { prefix, name } = choice.queueFor(model, lane);
        const [waiting, prioritized] = await Promise.all([
          redis.llen(`${prefix}:${name}:wait`),
          redis.zcard(`${prefix}:${name}:prioritized`),
        ]);
        const turns = lane === 'interactive' && prioritized > 0 ? await readTurns(model, known) : [];
        return [[fieldOf(model, lane), String(waiting + prioritized)] as const, ...turns];
      }),
    );
    const found = { ...known, ...Object.fromEntries(counts.flat()), begunAt: String(begunAt) };
    await redis.multi().hset(queueDepthsKey, found).pexpire(queueDepthsKey, lifeMs).exec();
    return found;
  }

  /** Of ranks in which a job waits. */
  async function readTurns(model: string, known: Record<string, string>): Promise<(readonly [string, string])[]> {
    const { prefix, name } = modelQueue(model, 'interactive');
    const key = `${prefix}:${name}:prioritized`;
    const heads = await Promise.all(
      ranks.map(async (rank) => ({ field: turnFieldOf(model, rank), head: await readHead(key, rank) })),
    );
    return heads.flatMap(({ field, head }) =>
      head === undefined ? [] : [[field, String(latestOf(Number(known[field] ?? 0), head - 1))] as const],
    );
  }

  async function readHead(key: string, rank: number): Promise<number | undefined> {
    const [min, max] = scoresOf(rank);
    const [[, first], [, last]] = await Promise.all([
      redis.zrange(key, String(min), String(max), 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES'),
      redis.zrange(key, String(max), String(min), 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES'),
    ]);
    if (first === undefined || last === undefined) return undefined;
    const [head, end] = [turnOfScore(first), turnOfScore(last)];
    if (head < halfOfTurns && end < head + turnsAheadMax) return head;
    await lowerTurns([key], [min, max]);
    return readHead(key, rank);
  }

  return {
    async read(ageMsMax, taken = []) {
      const askedAt = now();
      const [[seconds, microseconds], stored] = await Promise.all([redis.time(), redis.hgetall(queueDepthsKey)]);
      const ahead = turnsAhead(taken, stored);
      const known = { ...stored, ...ahead };
      const time = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      const age = time - Number(known.begunAt ?? 0);
      const isToCount = age >= ageMsMax || age < 0;
      const mayCount = isToCount && (await redis.set(countingKey, '1', 'PX', ageMsMax, 'NX')) !== null;
      const found = mayCount ? await count(time, known) : known;
      if (!mayCount && Object.keys(ahead).length > 0) await redis.hset(queueDepthsKey, ahead);
      // Redis has read its clock after it was asked, so that the count began at this time or later.
      const begunAt = askedAt - (time - Number(found.begunAt ?? 0));
      return {
        begunAt,
        of: (model, lane) => Number(found[fieldOf(model, lane)] ?? 0),
        takenOf: (model, rank) => numberOf(found[turnFieldOf(model, rank)]),
      };
    },
  };
}

/** One that is too far ahead is of a time before turns were lowered. */
function turnsAhead(taken: readonly TakenTurn[], stored: Record<string, string>): Record<string, string> {
  const ahead = taken.flatMap(({ model, rank, turn }) => {
    const field = turnFieldOf(model, rank);
    const known = numberOf(stored[field]);
    const isAhead = known === undefined || (turn > known && turn <= known + turnsAheadMax);
    return isAhead ? [[field, String(turn)] as const] : [];
  });
  return Object.fromEntries(ahead);
}

function createLowerTurns(redis: Redis) {
  const lua = loadLua(new URL('./lower-turns.lua', import.meta.url), { halfOfTurns, turnsAheadMax, scoreOfPriority });
  return loadScript(redis, { name: 'svcLowerTurns', lua, numberOfKeys: 1 });
}

function turnOfScore(score: string): number {
  return turnOf(Math.floor(Number(score) / scoreOfPriority));
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

function turnFieldOf(model: string, rank: number): string {
  return `turn ${rank} ${model}`;
}

function fieldOf(model: string, lane: Lane): string {
  return `${lane} ${model}`;
}
