import { firstTokenBoundsMs } from '../store/usage/usage-record.ts';

/**
 * What the processes of the fleet count, by name. `call`: calls of a backend for a model that were answered or failed, and their first
 * tokens by class of `firstTokenBoundsMs`. `request`: requests of inference routes by the code of their error, else by their outcome.
 * `longest`: not a sum but the highest, in milliseconds, that any process has seen.
 */
export type FleetCount =
  | ['call', backend: string, model: string, what: 'answered' | 'failed' | number]
  | ['request', code: string]
  | ['longest', what: 'wait'];

export type FleetCounts = ReturnType<typeof createFleetCounts>;

/** Collects what this process counts until it is taken. Names are bounded by the plan file and the error codes. */
export function createFleetCounts() {
  let sums = new Map<string, number>();
  let highest = new Map<string, number>();
  return {
    add(count: Exclude<FleetCount, ['longest', ...unknown[]]>): void {
      const name = JSON.stringify(count);
      sums.set(name, (sums.get(name) ?? 0) + 1);
    },
    raise(count: Extract<FleetCount, ['longest', ...unknown[]]>, value: number): void {
      const name = JSON.stringify(count);
      highest.set(name, Math.max(highest.get(name) ?? 0, Math.round(value)));
    },
    /** What was counted since the last time. */
    take(): TakenCounts {
      const taken = { sums: [...sums].flat().map(String), highest: [...highest].flat().map(String) };
      [sums, highest] = [new Map(), new Map()];
      return taken;
    },
  };
}

/** Names and values by turns. */
export type TakenCounts = { sums: string[]; highest: string[] };

export function firstTokenClassOf(ms: number): number {
  const index = firstTokenBoundsMs.findIndex((bound) => ms <= bound);
  return index === -1 ? firstTokenBoundsMs.length : index;
}

/**
 * Counts are kept for steps of time. An operator sees the last hours in steps of five minutes, and the last weeks in hours
 * (contract.md#r13-hours).
 */
export const countSteps = {
  minutes: { stepMs: 300_000, keptMs: 3 * 3_600_000 },
  hours: { stepMs: 3_600_000, keptMs: 62 * 86_400_000 },
} as const;
export type CountStep = keyof typeof countSteps;

/** The beginning of a step of time. */
export function stepAt(time: number, step: CountStep): number {
  const { stepMs } = countSteps[step];
  return Math.floor(time / stepMs) * stepMs;
}
