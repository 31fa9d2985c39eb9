import { median } from '../measure.ts';
import type { Run } from './results.ts';

/** A figure over the rounds: its median, the lowest and the highest value. */
export type Spread = { median: number; low: number; high: number };
export type Figure = (run: Run) => number | undefined;

export const requestsPerSecond: Figure = ({ answered, seconds }) => answered / seconds;
export const cpuMicros: Figure = (run) => sum(run.cpuMicros);
export const memoryMiB: Figure = (run) => sum(run.memoryMiB);

/** Undefined if no round has this figure. */
export function spreadOf(values: readonly (number | undefined)[]): Spread | undefined {
  const known = values.filter((value) => value !== undefined && Number.isFinite(value)) as number[]; // because of the line above
  if (known.length === 0) return undefined;
  return { median: median(known), low: Math.min(...known), high: Math.max(...known) };
}

export function runsOf(runs: readonly Run[], { row, load }: { row: string; load: string }): Run[] {
  return runs.filter((run) => run.row === row && run.load === load);
}

/**
 * A row's figure relative to another row's, as a ratio or as a difference. It is computed within each round first, because the machine's
 * speed drifts between rounds.
 */
export function compareRounds(
  runs: readonly Run[],
  { load, row, to, figure, by }: { load: string; row: string; to: string; figure: Figure; by: 'ratio' | 'difference' },
): Spread | undefined {
  const others = new Map(runsOf(runs, { row: to, load }).map((run) => [run.round, figure(run)]));
  const pairs = runsOf(runs, { row, load }).map((run) => ({ own: figure(run), other: others.get(run.round) }));
  return spreadOf(
    pairs.map(({ own, other }) => {
      if (own === undefined || other === undefined) return undefined;
      return by === 'ratio' ? own / other : own - other;
    }),
  );
}

export function sum(values: Record<string, number>): number {
  return Object.values(values).reduce((total, value) => total + value, 0);
}
