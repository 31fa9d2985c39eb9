import type { Bar } from '../comparison/bars.ts';
import { median } from '../measure.ts';
import type { AffinityFigures } from './figures.ts';
import type { KeyCost } from './key-cost.ts';
import type { Leaving } from './measure-affinity.ts';
import { nameOf, smgNames } from './variants.ts';

/** One variant in one round of a scenario. */
export interface AffinityRun {
  readonly scenario: string;
  readonly round: number;
  readonly variant: string;
  readonly figures: AffinityFigures;
}

type Figure = (figures: AffinityFigures) => number;

const cached: Figure = (figures) => figures.cached;
const ofIdeal: Figure = (figures) => figures.cached / figures.ideal;
const p50: Figure = ({ firstTokenP50Ms }) => firstTokenP50Ms;
const p99: Figure = ({ firstTokenP99Ms }) => firstTokenP99Ms;
const mostCalls: Figure = (figures) => figures.mostCalls;

/** The claims for these numbers of workers, in medians over the rounds, and what must hold in every run of the service. */
export function affinityBars(runs: readonly AffinityRun[], slotsEach: number): Bar[] {
  const perWorkers = [1, 4].flatMap((workers) => barsOfWorkers(runs, workers));
  const ours = runs.filter(({ variant }) => !Object.values(smgNames).includes(variant));
  const sum = (figure: Figure) =>
    ours.length === 0 ? undefined : ours.reduce((all, { figures }) => all + figure(figures), 0);
  const atOnce = ours.length === 0 ? undefined : Math.max(...ours.map(({ figures }) => figures.atOnce));
  return [
    ...perWorkers,
    { claim: 'most calls at once of a server', measured: atOnce, atMost: slotsEach },
    { claim: 'failed requests', measured: sum(({ failed }) => failed), atMost: 0 },
    { claim: 'over-admitted requests, lost tokens and duplicates', measured: sum(wrongIn), atMost: 0 },
  ];
}

/** At most this many microseconds for the keys of a request of 4 KiB. */
const keyMicrosMax = 15;
/** Moved turns are within the noise of load, as a share of all that were compared. */
const movedMore = 0.02;

export function keyBar(cost: KeyCost): Bar {
  return {
    claim: 'keys of a request of 4 KiB, µs more than without',
    measured: cost.prefix - cost.none,
    atMost: keyMicrosMax,
  };
}

/** A server that leaves moves no chats of others: no more than load moves without it. */
export function leavingBar({ leaves, stays }: Record<'leaves' | 'stays', readonly Leaving[]>): Bar {
  const movedOf = (rounds: readonly Leaving[]) => {
    const sum = (name: 'moved' | 'turns') => rounds.reduce((total, each) => total + each[name], 0);
    return sum('moved') / sum('turns');
  };
  const measured = leaves.length > 0 && stays.length > 0 ? movedOf(leaves) - movedOf(stays) : undefined;
  return { claim: 'chats of other servers that a leaving one moves, as a share', measured, atMost: movedMore };
}

/** What must not be wrong in any run, however fast it is. */
export function isWrong({ figures, variant }: AffinityRun, slotsEach: number): boolean {
  const isPeer = Object.values(smgNames).includes(variant);
  return !isPeer && (figures.failed > 0 || wrongIn(figures) > 0 || figures.atOnce > slotsEach);
}

function barsOfWorkers(runs: readonly AffinityRun[], workers: number): Bar[] {
  const [prefix, none] = [nameOf('prefix', workers), nameOf('none', workers)];
  const chats = runs.filter(({ scenario }) => scenario === 'chats');
  const medianIn = (scenario: string, figure: Figure) =>
    medianOf(
      runs.filter((run) => run.scenario === scenario && run.variant === prefix).map((run) => figure(run.figures)),
    );
  const claim = (text: string) => `${prefix}: ${text}`;
  return [
    { claim: claim('cached tokens, relative to the ideal'), measured: medianIn('chats', ofIdeal), atLeast: 0.85 },
    { claim: claim('first token p50, relative to none'), measured: ratio(chats, prefix, none, p50), atMost: 0.5 },
    { claim: claim('first token p99, relative to none'), measured: ratio(chats, prefix, none, p99), atMost: 1.05 },
    { claim: claim('most loaded server, by calls'), measured: medianIn('chats', mostCalls), atMost: 1.3 },
    {
      claim: claim('most loaded server with a shared prompt, by calls'),
      measured: medianIn('shared', mostCalls),
      atMost: 1.3,
    },
    {
      claim: claim('cached tokens, relative to the better policy of SMG'),
      measured: bestOf(Math.min, (policy) => ratio(chats, prefix, policy, cached)),
      atLeast: 1,
    },
    {
      claim: claim('first token p99, relative to the better policy of SMG'),
      measured: bestOf(Math.max, (policy) => ratio(chats, prefix, policy, p99)),
      atMost: 1,
    },
  ];
}

/** Computed within each round first, because the machine's speed drifts between them. */
function ratio(runs: readonly AffinityRun[], variant: string, to: string, figure: Figure): number | undefined {
  const rounds = [...Map.groupBy(runs, ({ round }) => round).values()];
  const ratios = rounds.flatMap((ofRound) => {
    const own = ofRound.find((run) => run.variant === variant);
    const other = ofRound.find((run) => run.variant === to);
    return own === undefined || other === undefined ? [] : [figure(own.figures) / figure(other.figures)];
  });
  return medianOf(ratios);
}

/** The better policy is the one that this service compares worse with. */
function bestOf(worse: (...values: number[]) => number, ratioTo: (policy: string) => number | undefined) {
  const ratios = Object.values(smgNames).flatMap((policy) => ratioTo(policy) ?? []);
  return ratios.length === 0 ? undefined : worse(...ratios);
}

function wrongIn({ books }: AffinityFigures): number {
  return books === undefined ? 0 : books.overAdmitted + books.lostUsage + books.duplicates;
}

function medianOf(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : median(values);
}
