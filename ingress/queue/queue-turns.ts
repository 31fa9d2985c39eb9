import { oncePerObject } from '../../shared/concurrency/single-flight.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { usualPriority } from '../../shared/plan-file/plan-file-schema.ts';
import {
  createRankOf,
  isLaterTurn,
  latestOf,
  priorityOf,
  rankOfPriority,
  turnMax,
  turnOf,
  turnsAheadMax,
} from './job-priority.ts';
import type { Depths, TakenTurn } from './queue-depths.ts';

/** The latest turn of an account's requests for one model, kept while any of them waits in this ingress. */
export type LatestTurn = { turn: number };

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
