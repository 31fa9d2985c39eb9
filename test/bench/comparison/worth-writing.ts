import type { Part, Results } from './results.ts';

/** Of a median with a spread, and of a run in which a garbage collection or a pause is not all there is. */
const [roundsMin, secondsMin] = [3, 3];
const idleCpuMax = 0.15;

/** Of the rounds only the comparison knows. */
type Wanted = { part: Part; rounds: number; seconds: number; withPeers: boolean };

/** Why figures of such a run must not be on the page about benchmarks; undefined if they may. */
export function notWorthWriting({ part, rounds, seconds, withPeers }: Wanted): string | undefined {
  if (!withPeers) return 'the peers are left out';
  if (part === 'truth') return undefined;
  if (rounds < roundsMin) return `${rounds} rounds are no median: at least ${roundsMin}`;
  if (seconds < secondsMin) return `rounds of ${seconds} s are too short: at least ${secondsMin}`;
  return undefined;
}

/** The same once it has been measured: a peer that could not be installed or answered nothing. */
export function peersNotMeasured({ rows, runs }: Pick<Results, 'rows' | 'runs'>): string | undefined {
  const silent = rows.filter(({ name }) => !runs.some(({ row }) => row === name));
  return silent.length === 0
    ? undefined
    : silent.map(({ name, missing }) => `${name}: ${missing ?? 'no answer'}`).join('; ');
}

/** What has to be known of all figures: `idleCpu` is the share of the machine's time that was used before they were taken. */
export function warningsOf(idleCpu: number): string[] {
  if (idleCpu <= idleCpuMax) return [];
  return [`the machine was busy: ${(100 * idleCpu).toFixed(0)}% of its time was used while nothing was asked`];
}
