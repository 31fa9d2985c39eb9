import type { Cost, Load, Measurement } from './measure.ts';

export type Budget = Record<Load, Measurement>;

/**
 * How far a figure of the same code can be above the budget: a share, and a few more. A stream takes seconds, in which locks are renewed
 * and the like: its bytes were 162 to 169 KB in six runs, and are more on a busy machine.
 */
type Tolerance = Record<keyof Cost, { share: number; more: number }>;
const bytes = { share: 0.03, more: 0 };
const none = { share: 0, more: 0 };
const tolerances: Record<Load, Tolerance> = {
  requests: { commands: none, scripts: none, bytesIn: bytes, bytesOut: bytes, keysLeft: none },
  stream: {
    commands: { share: 0.05, more: 50 },
    scripts: { share: 0, more: 6 },
    bytesIn: { share: 0.08, more: 0 },
    bytesOut: { share: 0.08, more: 0 },
    keysLeft: { share: 0, more: 3 },
  },
};

/** Says of each figure over its budget how much it grew, and in which parts. Empty if all are within it. */
export function overBudget(budget: Budget, measured: Budget): string[] {
  const loads = Object.keys(budget) as Load[]; // the budget has both
  return loads.flatMap((load) => {
    const [allowed, now] = [budget[load], measured[load]];
    const tolerance = tolerances[load];
    const figures = Object.keys(tolerance) as (keyof Cost)[]; // its keys are the figures
    const over = figures.filter((name) => {
      const { share, more } = tolerance[name];
      return now.cost[name] > allowed.cost[name] * (1 + share) + more;
    });
    const lines = over.map((name) => `${load}: ${name} grew from ${allowed.cost[name]} to ${now.cost[name]}`);
    return over.length === 0 ? [] : [...lines, ...grown(allowed.parts, now.parts).map((part) => `${load}: ${part}`)];
  });
}

/** The parts that grew most, by calls. */
function grown(before: Record<string, number>, now: Record<string, number>): string[] {
  return Object.entries(now)
    .map(([name, count]) => ({ name, count, was: before[name] ?? 0 }))
    .filter(({ count, was }) => count > was)
    .sort((one, other) => other.count - other.was - (one.count - one.was))
    .slice(0, 10)
    .map(({ name, count, was }) => `${name}: ${was} → ${count}`);
}
