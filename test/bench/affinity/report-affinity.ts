import { type Bar, verdictOf } from '../comparison/bars.ts';
import { median } from '../measure.ts';
import { percent, show } from '../report.ts';
import type { AffinityRun } from './affinity-bars.ts';
import type { AffinityFigures } from './figures.ts';
import type { Leaving } from './measure-affinity.ts';

/** Medians over the rounds, and the worst for what must not be exceeded. */
export function reportAffinity(title: string, runs: readonly AffinityRun[]): void {
  const byVariant = Object.fromEntries(
    [...Map.groupBy(runs, ({ variant }) => variant)].map(([name, of]) => [name, of.map(({ figures }) => figures)]),
  );
  const share = (rounds: Rounds, figure: Figure) => `${(100 * medianOf(rounds, figure)).toFixed(1)}%`;
  show(`${title}: cached tokens, and the time to the first token`, byVariant, (rounds) => ({
    cached: share(rounds, ({ cached }) => cached),
    'of the ideal': share(rounds, ({ cached, ideal }) => cached / ideal),
    'of turns': share(rounds, ({ cachedOfTurns }) => cachedOfTurns),
    'of their ideal': share(rounds, ({ cachedOfTurns, idealOfTurns }) => cachedOfTurns / idealOfTurns),
    'p50, ms': medianOf(rounds, ({ firstTokenP50Ms }) => firstTokenP50Ms).toFixed(0),
    'p99, ms': medianOf(rounds, ({ firstTokenP99Ms }) => firstTokenP99Ms).toFixed(0),
    'moved turns': medianOf(rounds, ({ moved }) => moved).toFixed(0),
    failed: sum(rounds, ({ failed }) => failed),
  }));
  show(`${title}: load of the servers, relative to the mean`, byVariant, (rounds) => ({
    'most calls': medianOf(rounds, ({ mostCalls }) => mostCalls).toFixed(2),
    'most time': medianOf(rounds, ({ mostTime }) => mostTime).toFixed(2),
    'at once': Math.max(...rounds.map(({ atOnce }) => atOnce)),
    'slots in use': percent(medianOf(rounds, ({ slots }) => slots)),
    seconds: medianOf(rounds, ({ seconds }) => seconds).toFixed(0),
    'CPU busy': percent(medianOf(rounds, ({ cpu }) => cpu)),
    'by other processes': percent(medianOf(rounds, ({ othersCpu }) => othersCpu)),
    ...booksCells(rounds),
  }));
  show(`${title}: processor time, ms a request`, byVariant, (rounds) =>
    Object.fromEntries(
      Object.keys(rounds[0]?.cpuMs ?? {}).map((name) => [
        name,
        medianOf(rounds, ({ cpuMs }) => cpuMs[name] ?? Number.NaN).toFixed(1),
      ]),
    ),
  );
}

export function reportLeaving(rows: Record<string, readonly Leaving[]>): void {
  const all = (rounds: readonly Leaving[], name: keyof Leaving) =>
    rounds.reduce((total, each) => total + each[name], 0);
  show('Leaving: turns in the 15 s after a server has left whose turn before was at another one', rows, (rounds) => ({
    turns: all(rounds, 'turns'),
    moved: all(rounds, 'moved'),
    share: `${((100 * all(rounds, 'moved')) / all(rounds, 'turns')).toFixed(1)}%`,
    'calls of the leaving server': all(rounds, 'callsOfLeaving'),
    failed: all(rounds, 'failed'),
  }));
}

export function reportBars(bars: readonly Bar[]): void {
  show('Affinity: bars', Object.fromEntries(bars.map((bar) => [bar.claim, bar])), (bar) => ({
    measured: bar.measured?.toFixed(3) ?? '–',
    bar: bar.atMost === undefined ? `≥ ${bar.atLeast}` : `≤ ${bar.atMost}`,
    verdict: verdictOf(bar),
  }));
}

type Rounds = readonly AffinityFigures[];
type Figure = (figures: AffinityFigures) => number;

function medianOf(rounds: Rounds, figure: Figure): number {
  return median(rounds.map(figure));
}

function sum(rounds: Rounds, figure: Figure): number {
  return rounds.reduce((total, each) => total + figure(each), 0);
}

function booksCells(rounds: Rounds): Record<string, number | string> {
  if (rounds.every(({ books }) => books === undefined)) return {};
  return {
    'over-admitted': sum(rounds, ({ books }) => books?.overAdmitted ?? 0),
    'lost usage': sum(rounds, ({ books }) => books?.lostUsage ?? 0),
    duplicates: sum(rounds, ({ books }) => books?.duplicates ?? 0),
  };
}
