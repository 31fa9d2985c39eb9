import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AffinityRun, affinityBars, isWrong, keyBar, leavingBar } from './affinity-bars.ts';
import type { AffinityFigures } from './figures.ts';
import { measureKeyCost } from './key-cost.ts';
import {
  type Leaving,
  measureLeaving,
  measureVariant,
  sharedSizes,
  slotsEach,
  usualSizes,
} from './measure-affinity.ts';
import { reportAffinity, reportBars, reportLeaving } from './report-affinity.ts';
import { nameOf, type Variant, variants } from './variants.ts';

export const scenarioNames = ['chats', 'shared', 'leaving'] as const;

export type AffinityOptions = {
  rounds: number;
  withPeers: boolean;
  /** Default: all. */
  scenarios: readonly string[] | undefined;
  variants: readonly string[] | undefined;
};

/** With a shared prompt, the load is in question, which does not need each number of workers without affinity. */
const notShared = [nameOf('none', 1), nameOf('none', 8)];
/** With more workers, their shares move as many chats as the server that leaves. */
const leavingVariant = nameOf('prefix', 1);

/** Measures each scenario, round by round, with another seed in each. Resolves with the exit code: 1 if a count was wrong. */
export async function runAffinity(options: AffinityOptions): Promise<number> {
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'inference-bench-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const { rounds, scenarios = scenarioNames } = options;
  const wanted = variants.filter((variant) => isWanted(variant, options));
  const runs: AffinityRun[] = [];
  const leaving: Record<string, Leaving[]> = { 'a server leaves': [], 'none leaves': [] };
  for (let round = 1; round <= rounds; round += 1) {
    for (const scenario of ['chats', 'shared'] as const) {
      if (!scenarios.includes(scenario)) continue;
      const ofScenario = wanted.filter(({ name }) => scenario === 'chats' || !notShared.includes(name));
      const sizes = scenario === 'shared' ? sharedSizes : usualSizes;
      // In turns, so that a drift of the machine's speed affects all of them.
      for (const variant of round % 2 === 1 ? ofScenario : ofScenario.toReversed()) {
        const figures = await measureVariant({ variant, seed: round, sizes }, { directory });
        runs.push({ scenario, round, variant: variant.name, figures });
        console.error(`affinity: round ${round} of ${rounds}, ${scenario}, ${variant.name}: ${summaryOf(figures)}`);
      }
    }
    const variant = wanted.find(({ name }) => name === leavingVariant);
    if (!scenarios.includes('leaving') || variant === undefined) continue;
    for (const [row, found] of Object.entries(leaving)) {
      const leaves = row === 'a server leaves';
      found.push(await measureLeaving({ variant, seed: round, sizes: usualSizes, leaves }, { directory }));
      console.error(`affinity: round ${round} of ${rounds}, ${row}: ${JSON.stringify(found.at(-1))}`);
    }
  }
  report(runs, leaving);
  return runs.some((run) => isWrong(run, slotsEach)) ? 1 : 0;
}

function isWanted({ name, ...variant }: Variant, { withPeers, variants: named }: AffinityOptions): boolean {
  return (withPeers || !('policy' in variant)) && (named === undefined || named.includes(name));
}

function report(runs: readonly AffinityRun[], leaving: Record<string, readonly Leaving[]>): void {
  const inScenario = (wanted: string) => runs.filter(({ scenario }) => scenario === wanted);
  const [chats, shared] = [inScenario('chats'), inScenario('shared')];
  if (chats.length > 0) reportAffinity('Affinity', chats);
  if (shared.length > 0) reportAffinity('Affinity, a prompt that all share', shared);
  if (Object.values(leaving).some((rounds) => rounds.length > 0)) reportLeaving(leaving);
  const rows = { leaves: leaving['a server leaves'] ?? [], stays: leaving['none leaves'] ?? [] };
  const keys = measureKeyCost();
  console.log(
    `\nKeys of a request of 4 KiB: ${keys.prefix.toFixed(1)} µs, ${keys.none.toFixed(1)} µs without affinity`,
  );
  reportBars([...affinityBars(runs, slotsEach), leavingBar(rows), keyBar(keys)]);
  console.log(JSON.stringify({ affinity: { runs, leaving } }));
}

function summaryOf({ cached, ideal, firstTokenP50Ms, firstTokenP99Ms, failed, failure }: AffinityFigures): string {
  const failures = failure === undefined ? '' : `, ${failed} failed: ${failure}`;
  const times = `first token ${firstTokenP50Ms.toFixed(0)} and ${firstTokenP99Ms.toFixed(0)} ms`;
  return `${((100 * cached) / ideal).toFixed(1)}% of the ideal, ${times}${failures}`;
}
