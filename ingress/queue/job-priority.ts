import { type PlanFile, usualPriority } from '../../shared/process/plan-file.ts';

/** BullMQ's priority of a job, lower first, by the queue that it goes into. */
export type JobPriority = {
  /** Of its plan, in a queue of the release before. */
  ofPlan: number;
  /** In its model's queue: its plan's rank first, then its turn. */
  inTurn: number;
};

/** BullMQ has 21 bits for a priority: 4 for the plan's rank, 17 for the turn. A priority of 0 would be none, so turns begin with 1. */
const turnsOfRank = 2 ** 17;
const ranksMax = 16;
export const turnMax = turnsOfRank - 1;
/** Turns are lowered by half of their range when the head of the queue has passed that. */
export const halfOfTurns = turnsOfRank / 2;
/** No turn is given further behind the latest that was taken: one that is comes from an ingress that did not know yet that turns were lowered. */
export const turnsAheadMax = turnsOfRank / 4;
/** BullMQ's score of a job is its priority times this, plus a number by which jobs of one priority keep their order. */
export const scoreOfPriority = 2 ** 32;

export function priorityOf(rank: number, turn: number): number {
  return rank * turnsOfRank + turn;
}

/** The rank of each priority that a plan has, 0 first. If plans have more priorities than there are ranks, neighbours share one. */
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

/** The scores of jobs of a rank, both included. */
export function scoresOf(rank: number): [min: number, max: number] {
  const first = rank * turnsOfRank * scoreOfPriority;
  return [first, first + turnsOfRank * scoreOfPriority - 1];
}

export function turnOf(priority: number): number {
  return priority % turnsOfRank;
}

export function rankOfPriority(priority: number): number {
  return Math.floor(priority / turnsOfRank);
}

/** Of two that are known of one rank: the later one, unless turns were lowered since it was taken. */
export function latestOf(known: number, counted: number | undefined): number {
  if (counted === undefined || counted < known - turnsAheadMax) return counted ?? known;
  return Math.max(known, counted);
}
