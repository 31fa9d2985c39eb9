import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { usualPriority } from '../../shared/plan-file/plan-file-schema.ts';

/**
 * A job's priority in its model's queue is by the rank of its plan, then by its turn. Lower comes first.
 * BullMQ has 21 bits for a priority: 4 for the plan's rank, 17 for the turn (decisions.md#turns-in-the-priority). Priority 0 means no
 * priority, so turns begin at 1.
 */
const turnsOfRank = 2 ** 17;
const ranksMax = 16;
export const turnMax = turnsOfRank - 1;
/** When the head of the queue is at or past this turn, turns are lowered by it. */
export const halfOfTurns = turnsOfRank / 2;
/**
 * No turn is given further ahead of the latest taken one. A turn that is further ahead comes from an ingress that did not know yet that
 * turns had been lowered.
 */
export const turnsAheadMax = turnsOfRank / 4;
/** BullMQ's score of a job is its priority times this, plus a number that keeps jobs of the same priority in order. */
export const scoreOfPriority = 2 ** 32;

export function priorityOf(rank: number, turn: number): number {
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

export function rankOfPriority(priority: number): number {
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
