export const phases = ['before', 'during', 'after'] as const;
export type Phase = (typeof phases)[number];
export type ByPhase<Value> = Record<Phase, Value>;

export type Percentile = 'p50' | 'p99';

/** How long callers waited, in milliseconds. Not a number if none was answered. */
export type Waits = { p50: number; p99: number; answers: number };

export type Observations = {
  /** Which of the waits is judged. Default: the median. */
  judgedBy?: Percentile | undefined;
  /** By kind of caller. */
  waits: Record<string, ByPhase<Waits>>;
  /** The maximum of resident memory, in MiB, by process. */
  peakMiB: Record<string, ByPhase<number>>;
  /** Refusals of legitimate callers, as messages. */
  refused: readonly string[];
  /** Answers that were broken, wrong or not settled exactly once, as messages. */
  lost: readonly string[];
  /** What the attacker got without permission. */
  gains: readonly string[];
  /** Processes that ended. */
  ended: readonly string[];
};

/** How many times longer others may wait during an attack. */
export const slowdownMax = 3;
export const residentMiBMax = 512;
const examplesMax = 3;

/** Each exceeded limit, as a message. A missing value exceeds its limit. */
export function exceededLimits({
  judgedBy = 'p50',
  waits,
  peakMiB,
  refused,
  lost,
  gains,
  ended,
}: Observations): string[] {
  return [
    ...Object.entries(waits).flatMap(([who, { before, during }]) =>
      during[judgedBy] <= slowdownMax * before[judgedBy]
        ? []
        : [`${judgedBy} of ${who} is ${during[judgedBy]} ms, more than ${slowdownMax} times ${before[judgedBy]} ms`],
    ),
    ...Object.entries(peakMiB).flatMap(([name, peaks]) => {
      const mostMiB = Math.max(...Object.values(peaks));
      return mostMiB <= residentMiBMax ? [] : [`${name} had ${mostMiB} MiB, more than ${residentMiBMax}`];
    }),
    ...listed('refused', refused),
    ...listed('lost', lost),
    ...gains.map((gain) => `the attacker got ${gain}`),
    ...ended.map((name) => `${name} ended`),
  ];
}

function listed(what: string, each: readonly string[]): string[] {
  if (each.length === 0) return [];
  const rest = each.length > examplesMax ? ', …' : '';
  return [`${each.length} ${what}: ${each.slice(0, examplesMax).join(', ')}${rest}`];
}

/** The exit code of the report: 1 if any attack exceeded a limit. */
export function exitCodeOf(results: readonly { exceeded: readonly string[] }[]): 0 | 1 {
  return results.some(({ exceeded }) => exceeded.length > 0) ? 1 : 0;
}

export function waitsOf(ms: readonly number[]): Waits {
  const sorted = ms.toSorted((one, other) => one - other);
  const at = (share: number) => rounded(sorted[Math.floor(sorted.length * share)] ?? Number.NaN);
  return { p50: at(0.5), p99: at(0.99), answers: ms.length };
}

export function rounded(value: number): number {
  return Math.round(10 * value) / 10;
}
