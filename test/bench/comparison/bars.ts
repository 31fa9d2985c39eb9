import type { Results, Run } from './results.ts';
import { names } from './rows.ts';
import { compareRounds, cpuMicros, type Figure, requestsPerSecond, runsOf, spreadOf } from './summarise.ts';

/** A claim that was made before it was measured, in medians; `goal` is what was hoped for. */
export type Bar = {
  claim: string;
  measured: number | undefined;
  atMost?: number;
  atLeast?: number;
  goal?: number;
  /** What it was measured under; by one ingress and one worker where no row is named. */
  load?: string;
  row?: string;
  /** Why it says nothing on this machine. */
  notJudged?: string;
};

/** With less of the machine to spare a second pair of processes has nowhere to run. */
const busyMax = 0.9;

const p50: Figure = (run) => run.p50Ms;
const p99: Figure = (run) => run.p99Ms;
const firstToken: Figure = ({ stream }) => stream?.firstTokenP50Ms;
const late: Figure = ({ stream }) => stream?.lateP99Ms;
const busy: Figure = ({ machineCpu }) => machineCpu;

type Measured = Pick<Results, 'runs' | 'warmUps'>;

/** Of one ingress and one worker, where two of each are not named. */
export function barsOf(results: Measured): Bar[] {
  const { runs } = results;
  const ratio = (load: string, to: string, figure: Figure, row: string = names.one) =>
    compareRounds(runs, { load, row, to, figure, by: 'ratio' })?.median;
  const above = (figure: Figure) =>
    compareRounds(runs, { load: '64 streams', row: names.one, to: names.proxy, figure, by: 'difference' })?.median;
  const own = (figure: Figure) => spreadOf(runsOf(runs, { row: names.one, load: '64 streams' }).map(figure))?.median;
  const [many, portkey] = ['64 clients', names.portkey];
  const streams = '64 streams';
  return [
    {
      claim: '64 clients: requests/s of Portkey’s',
      measured: ratio(many, portkey, requestsPerSecond),
      atLeast: 1.2,
      goal: 1.5,
      load: many,
    },
    { claim: '64 clients: p99 of Portkey’s', measured: ratio(many, portkey, p99), atMost: 1, load: many },
    {
      claim: '64 clients: requests/s of LiteLLM’s',
      measured: ratio(many, names.litellm, requestsPerSecond),
      atLeast: 15,
      load: many,
    },
    {
      claim: '64 clients: CPU/request of Portkey’s',
      measured: ratio(many, portkey, cpuMicros),
      atMost: 1,
      goal: 0.7,
      load: many,
    },
    {
      claim: '1 client: p50 of the bare proxy’s',
      measured: ratio('1 client', names.proxy, p50),
      atMost: 8,
      goal: 4,
      load: '1 client',
    },
    {
      claim: 'streams: first token p50 above the bare proxy’s, ms',
      measured: above(firstToken),
      atMost: 5,
      goal: 2,
      load: streams,
    },
    { claim: 'streams: a token late, p99, ms', measured: own(late), atMost: 20, load: streams },
    { claim: 'streams: machine busy', measured: own(busy), atMost: 0.5, load: streams },
    {
      claim: '64 clients: two and two of one and one',
      measured: ratio(many, names.one, requestsPerSecond, names.two),
      atLeast: 1.05,
      load: many,
      row: names.two,
      ...(busyIn(runs, { row: names.one, load: many }) >= busyMax && { notJudged: 'no core is free here' }),
    },
    { claim: 'over-admitted, lost usage and duplicates', measured: wrongIn(results), atMost: 0 },
  ];
}

/** `met`, `met, and the goal`, or by how much it was missed. */
export function verdictOf({ measured, atMost, atLeast, goal, notJudged }: Bar): string {
  if (measured === undefined) return 'not measured';
  if (notJudged !== undefined) return `not judged: ${notJudged}`;
  const bound = atMost ?? atLeast ?? 0;
  const holds = (wanted: number) => (atMost === undefined ? measured >= wanted : measured <= wanted);
  if (holds(bound)) return goal !== undefined && holds(goal) ? 'met, and the goal' : 'met';
  const share = bound === 0 ? '' : ` (${((100 * Math.abs(measured - bound)) / bound).toFixed(0)}%)`;
  return `missed by ${Math.abs(measured - bound).toPrecision(2)}${share}`;
}

/** Where a bar was missed: how much of the machine was in use, and what of it each process has taken for a request. */
export function boundOf(bar: Bar, { runs }: Pick<Results, 'runs'>): string {
  const { load, row = names.one } = bar;
  if (load === undefined || !verdictOf(bar).startsWith('missed')) return '';
  const measured = runsOf(runs, { row, load });
  const busyShare = busyIn(runs, { row, load });
  const medians = Object.keys(measured[0]?.cpuMicros ?? {}).map((name) => {
    const micros = spreadOf(measured.map((run) => run.cpuMicros[name]))?.median ?? 0;
    return [name, micros] as const;
  });
  const parts = medians
    .toSorted(([, one], [, other]) => other - one)
    .map(([name, value]) => `${name} ${value.toFixed(0)}`);
  return `machine ${(100 * busyShare).toFixed(0)}% busy; CPU, µs a request: ${parts.join(', ')}`;
}

function busyIn(runs: readonly Run[], of: { row: string; load: string }): number {
  return spreadOf(runsOf(runs, of).map(busy))?.median ?? 0;
}

/** Of rounds and of what warmed them up; undefined where nothing was counted. */
export function wrongIn({ runs, warmUps }: Measured): number | undefined {
  const counted = [...runs, ...warmUps].flatMap(({ books }) => (books === undefined ? [] : Object.values(books)));
  return counted.length === 0 ? undefined : counted.reduce((sum, count) => sum + count, 0);
}
