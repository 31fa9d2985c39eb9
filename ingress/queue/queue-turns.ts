import type { Queue } from 'bullmq';
import { oncePerObject } from '../../shared/concurrency/single-flight.ts';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import { jobName, modelQueue, openQueue } from '../../shared/jobs/queues.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { usualPriority } from '../../shared/plan-file/plan-file-schema.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import type { Depths, LatestTurn } from './queue-bounds.ts';

/**
 * Gives requests their turns in the queue of a model (contract.md#o6-turns). Accounts of one rank take turns: the n-th request that an
 * account has in flight is n turns behind the latest taken one. So it waits for at most about n requests of each other account, however
 * many those accounts send. The requests that an account sends to one ingress keep their order.
 */
export interface QueueTurns {
  /** The priority of a job. `inFlight`: requests of the account that wait or run, including this one. */
  next(request: {
    model: string;
    plan: string;
    plans: PlanFile['plans'];
    inFlight: number;
    latest: LatestTurn;
  }): number;
  /** A worker has taken a job with this priority. */
  taken(model: string, priority: number): void;
  /** The latest taken turns of the requests of this ingress. */
  latest(): TakenTurn[];
  /** Takes a new count; undefined if counting failed. */
  counted(depths: Depths | undefined): void;
}

const rankOfPlans = oncePerObject(createRankOf);

export function createQueueTurns(): QueueTurns {
  let counted: Depths | undefined;
  /** By rank and model. */
  const own = new Map<string, TakenTurn>();

  const nameOf = (model: string, rank: number) => `${rank} ${model}`;

  function takenOf(model: string, rank: number): number {
    return latestOf(own.get(nameOf(model, rank))?.turn ?? 0, counted?.takenOf(model, rank));
  }

  return {
    next({ model, plan, plans, inFlight, latest }) {
      const rank = rankOfPlans(plans)(plans[plan]?.priority ?? usualPriority);
      const taken = takenOf(model, rank);
      const turn = Math.min(taken + Math.min(inFlight, turnsAheadMax), turnMax);
      // Otherwise the latest turn is from before turns were lowered.
      const isInOrder = latest.turn <= taken + turnsAheadMax;
      latest.turn = isInOrder ? Math.max(turn, latest.turn) : turn;
      return priorityOf(rank, latest.turn);
    },
    taken(model, priority) {
      const rank = rankOfPriority(priority);
      const turn = turnOf(priority);
      if (isLaterTurn(turn, takenOf(model, rank))) own.set(nameOf(model, rank), { model, rank, turn });
    },
    latest: () => [...own.values()],
    counted(depths) {
      counted = depths ?? counted;
    },
  };
}

/**
 * A job's priority in its model's queue is by the rank of its plan, then by its turn. Lower comes first.
 * BullMQ has 21 bits for a priority: 4 for the plan's rank, 17 for the turn (decisions.md#turns-in-the-priority). Priority 0 means no
 * priority, so turns begin at 1.
 */
const turnsOfRank = 2 ** 17;
const ranksMax = 16;
export const turnMax = turnsOfRank - 1;
/** When the head of the queue is at or past this turn, turns are lowered by it. */
const halfOfTurns = turnsOfRank / 2;
/**
 * No turn is given further ahead of the latest taken one. A turn that is further ahead comes from an ingress that did not know yet that
 * turns had been lowered.
 */
export const turnsAheadMax = turnsOfRank / 4;
/** BullMQ's score of a job is its priority times this, plus a number that keeps jobs of the same priority in order. */
export const scoreOfPriority = 2 ** 32;

function priorityOf(rank: number, turn: number): number {
  return rank * turnsOfRank + turn;
}

/** Ranks the priorities of all plans, from 0. If there are more priorities than ranks, neighbouring priorities share a rank. */
export function createRankOf(plans: PlanFile['plans']): (priority: number) => number {
  const priorities = prioritiesOf(plans);
  const ranks = Math.min(ranksMax, priorities.length);
  return (priority) => Math.floor((priorities.indexOf(priority) * ranks) / priorities.length);
}

export function ranksOf(plans: PlanFile['plans']): number[] {
  return [...new Set(prioritiesOf(plans).map(createRankOf(plans)))];
}

function prioritiesOf(plans: PlanFile['plans']): number[] {
  return [...new Set([...Object.values(plans).map(({ priority }) => priority), usualPriority])].sort((a, b) => a - b);
}

/** The lowest and the highest score of the jobs of a rank. */
export function scoresOf(rank: number): [min: number, max: number] {
  const first = rank * turnsOfRank * scoreOfPriority;
  return [first, first + turnsOfRank * scoreOfPriority - 1];
}

export function turnOf(priority: number): number {
  return priority % turnsOfRank;
}

function rankOfPriority(priority: number): number {
  return Math.floor(priority / turnsOfRank);
}

/** Whether a turn is later than the known one of its rank. A turn that is too far ahead is from before turns were lowered. */
export function isLaterTurn(turn: number, known: number): boolean {
  return turn > known && turn <= known + turnsAheadMax;
}

/** The later of two known turns of a rank, unless turns were lowered after `known` was taken. */
export function latestOf(known: number, counted: number | undefined): number {
  if (counted === undefined || counted < known - turnsAheadMax) return counted ?? known;
  return Math.max(known, counted);
}

const script = loadLua(new URL('./queue-turns.lua', import.meta.url), {
  keys: 'jobsKey',
  args: 'lowest highest',
  constants: { halfOfTurns, turnsAheadMax, scoreOfPriority },
});

/** The turn of the job that is first of its rank in the queue of a model. */
type Head = { rank: number; turn: number };

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
/** The latest turn of a rank in a model's queue that one ingress knows to be taken. */
export type TakenTurn = { model: string; rank: number; turn: number };
export type RequestQueues = ReturnType<typeof createRequestQueues>;
/** The queues to which an ingress adds jobs: the interactive lane of every model. */
export function createRequestQueues(deps: { connection: Redis; log: Log }) {
  const queues = new Map<string, Queue>();

  function open(model: string): Queue {
    const queue = queues.get(model) ?? openQueue(modelQueue(model, 'interactive'), deps);
    queues.set(model, queue);
    return queue;
  }

  return {
    /** Adds a job in one round trip. The job id is the request id. `SERVICE_UNAVAILABLE` if it is unknown whether the job was queued. */
    async add(job: InferenceJob, priority: number): Promise<void> {
      await redisUnavailable(open(job.model).add(jobName, job, { jobId: job.requestId, priority }));
    },
    /** Removes a job that no worker has taken. Has no effect on other jobs. */
    async remove(model: string, requestId: string): Promise<void> {
      await open(model).remove(requestId);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}
