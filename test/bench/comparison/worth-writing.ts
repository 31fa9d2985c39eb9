import type { Part, Results } from './results.ts';

/** The least that gives a median with a spread, and a run that one garbage collection or pause does not dominate. */
const [roundsMin, secondsMin] = [3, 3];
const idleCpuMax = 0.15;

/** The truth has no rounds, and only it and the comparison have peers. */
type Wanted = { part: Part; rounds: number; seconds: number; withPeers: boolean };

/** Returns why figures of such a run must not be on the page about benchmarks; undefined if they may. */
export function notWorthWriting({ part, rounds, seconds, withPeers }: Wanted): string | undefined {
  if (!withPeers && (part === 'peers' || part === 'truth')) return 'the peers are left out';
  if (part === 'truth') return undefined;
  if (rounds < roundsMin) return `${rounds} rounds are no median: at least ${roundsMin}`;
  if (seconds < secondsMin) return `rounds of ${seconds} s are too short: at least ${secondsMin}`;
  return undefined;
}

/** The same after measuring: a peer could not be installed or did not answer. */
export function peersNotMeasured({ rows, runs }: Pick<Results, 'rows' | 'runs'>): string | undefined {
  const silent = rows.filter(({ name }) => !runs.some(({ row }) => row === name));
  return silent.length === 0
    ? undefined
    : silent.map(({ name, missing }) => `${name}: ${missing ?? 'no answer'}`).join('; ');
}

/** Warnings about all figures: `idleCpu` is the share of the machine's time that was used before they were taken. */
export function warningsOf(idleCpu: number): string[] {
  if (idleCpu <= idleCpuMax) return [];
  return [`the machine was busy: ${(100 * idleCpu).toFixed(0)}% of its time was used while no load was running`];
}
