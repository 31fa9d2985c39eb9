import { streamTokens } from '../loads/load.ts';
import type { Results, Run } from './results.ts';
import { names } from './rows.ts';
import { compareRounds, cpuMicros, type Figure, requestsPerSecond, runsOf, spreadOf, sum } from './summarise.ts';

/** A claim that was made before it was measured, in medians; `goal` is more ambitious. */
export type Bar = {
  claim: string;
  measured: number | undefined;
  atMost?: number;
  atLeast?: number;
  goal?: number;
  /** The load, and the row; without a row, one ingress and one worker. */
  load?: string;
  row?: string;
  /** Why it proves nothing on this machine. */
  notJudged?: string;
};

/** With less of the machine free, a second pair of processes cannot run in parallel. */
const busyMax = 0.9;

const p50: Figure = (run) => run.p50Ms;
const p99: Figure = (run) => run.p99Ms;
const firstToken: Figure = ({ stream }) => stream?.firstTokenP50Ms;
const lateP50: Figure = ({ stream }) => stream?.lateP50Ms;
const lateP99: Figure = ({ stream }) => stream?.lateP99Ms;
const busy: Figure = ({ machineCpu }) => machineCpu;

type Measured = Pick<Results, 'runs' | 'warmUps' | 'costs'>;

const [many, alone] = ['64 clients', '1 client'];
const [fewStreams, manyStreams, mostStreams] = ['64 streams', '256 streams', '512 streams'];
/** Of the delay that this service adds to that of a bare proxy. */
const addedMsMax = { p50: 10, p99: 25 };

/** For one ingress and one worker, unless two of each are named. */
export function barsOf(results: Measured): Bar[] {
  const { runs, costs } = results;
  const ratio = (load: string, to: string, figure: Figure, row: string = names.one) =>
    compareRounds(runs, { load, row, to, figure, by: 'ratio' })?.median;
  const { portkey } = names;
  return [
    {
      claim: `${many}: CPU per request, relative to Portkey’s`,
      measured: ratio(many, portkey, cpuMicros),
      atMost: 1.4,
      goal: 1.2,
      load: many,
    },
    {
      claim: `${many}: requests/s, relative to Portkey’s`,
      measured: ratio(many, portkey, requestsPerSecond),
      atLeast: 0.9,
      goal: 1,
      load: many,
    },
    {
      claim: `${many}: p99, relative to Portkey’s`,
      measured: ratio(many, portkey, p99),
      atMost: 1,
      goal: 0.8,
      load: many,
    },
    {
      claim: `${many}: requests/s, relative to LiteLLM’s`,
      measured: ratio(many, names.litellm, requestsPerSecond),
      atLeast: 15,
      goal: 22,
      load: many,
    },
    {
      claim: `${alone}: p50, relative to the bare proxy’s`,
      measured: ratio(alone, names.proxy, p50),
      atMost: 6,
      goal: 4,
      load: alone,
    },
    ...streamBars(runs),
    {
      claim: `${many}: requests/s of 2+2, relative to 1+1`,
      measured: ratio(many, names.one, requestsPerSecond, names.two),
      atLeast: 1.05,
      load: many,
      row: names.two,
      ...(busyIn(runs, { row: names.one, load: many }) >= busyMax && { notJudged: 'no core is free here' }),
    },
    ...costBars(costs),
    { claim: 'over-admitted requests, lost tokens and duplicates', measured: wrongIn(results), atMost: 0 },
  ];
}

function streamBars(runs: readonly Run[]): Bar[] {
  const { one, proxy, portkey, smg } = names;
  /** Of a stream, which is the ratio of a token, too: the streams of all rows have as many tokens. */
  const cpuRatio = (load: string, to: string) =>
    compareRounds(runs, { load, row: one, to, figure: cpuMicros, by: 'ratio' })?.median;
  const added = (load: string, figure: Figure) =>
    compareRounds(runs, { load, row: one, to: proxy, figure, by: 'difference' })?.median;
  const own = (load: string, figure: Figure) => spreadOf(runsOf(runs, { row: one, load }).map(figure))?.median;
  const cpuBar = (load: string): Bar => ({
    claim: `${load}: CPU per token, relative to Portkey’s`,
    measured: cpuRatio(load, portkey),
    atMost: 1,
    goal: 0.7,
    load,
  });
  const delayBars = (load: string): Bar[] => {
    const claim = `${load}: delay of a token, less the bare proxy’s`;
    return [
      { claim: `${claim}, p50, ms`, measured: added(load, lateP50), atMost: addedMsMax.p50, load },
      { claim: `${claim}, p99, ms`, measured: added(load, lateP99), atMost: addedMsMax.p99, load },
    ];
  };
  return [
    cpuBar(fewStreams),
    ...delayBars(fewStreams),
    cpuBar(manyStreams),
    {
      claim: `${manyStreams}: CPU per token, relative to SMG’s`,
      measured: cpuRatio(manyStreams, smg),
      atMost: 2,
      load: manyStreams,
    },
    ...delayBars(manyStreams),
    {
      claim: `${manyStreams}: first token p50, ms`,
      measured: own(manyStreams, firstToken),
      atMost: 50,
      goal: 20,
      load: manyStreams,
    },
    cpuBar(mostStreams),
    {
      claim: `${mostStreams}: delay of a token, p99, ms`,
      measured: own(mostStreams, lateP99),
      atMost: 60,
      goal: 40,
      load: mostStreams,
    },
  ];
}

function costBars(costs: Results['costs']): Bar[] {
  const { idle, scripts, takeoverMs } = costs ?? {};
  const commands = idle && sum(idle.one.commands);
  const further = idle && sum(idle.two.commands) - sum(idle.one.commands);
  const slowest = takeoverMs?.at(-1);
  return [
    {
      claim: 'idle: CPU of an ingress, a worker and Redis, ms/s',
      measured: idle && sum(idle.one.cpuMs),
      atMost: 8,
      goal: 4,
    },
    { claim: 'idle: Redis commands/s', measured: commands, atMost: 60 },
    { claim: 'idle: Redis commands/s of one more worker', measured: further, atMost: 10 },
    {
      claim: 'until a killed worker’s requests run again, s',
      measured: slowest && slowest / 1_000,
      atMost: 15,
      goal: 12,
    },
    { claim: 'admit, Redis CPU, µs', measured: scripts?.admit, atMost: 25, goal: 18 },
    { claim: 'start, Redis CPU, µs', measured: scripts?.start, atMost: 8, goal: 6 },
    { claim: 'settle, Redis CPU, µs', measured: scripts?.settle, atMost: 14, goal: 10 },
  ];
}

/** Returns `met`, `met, and the goal`, or by how much the bound was missed. */
export function verdictOf({ measured, atMost, atLeast, goal, notJudged }: Bar): string {
  if (measured === undefined) return 'not measured';
  if (notJudged !== undefined) return `not judged: ${notJudged}`;
  const bound = atMost ?? atLeast ?? 0;
  const holds = (wanted: number) => (atMost === undefined ? measured >= wanted : measured <= wanted);
  if (holds(bound)) return goal !== undefined && holds(goal) ? 'met, and the goal' : 'met';
  const share = bound === 0 ? '' : ` (${((100 * Math.abs(measured - bound)) / bound).toFixed(0)}%)`;
  return `missed by ${Math.abs(measured - bound).toPrecision(2)}${share}`;
}

/** For a missed bound: how much of the machine was used, and by which process, per request or token. */
export function boundOf(bar: Bar, { runs }: Pick<Results, 'runs'>): string {
  const { load, row = names.one } = bar;
  if (load === undefined || !verdictOf(bar).startsWith('missed')) return '';
  const measured = runsOf(runs, { row, load });
  const busyShare = busyIn(runs, { row, load });
  const isStreamed = measured.some(({ stream }) => stream !== undefined);
  const medians = Object.keys(measured[0]?.cpuMicros ?? {}).map((name) => {
    const micros = spreadOf(measured.map((run) => run.cpuMicros[name]))?.median ?? 0;
    return [name, micros / (isStreamed ? streamTokens : 1)] as const;
  });
  const parts = medians
    .toSorted(([, one], [, other]) => other - one)
    .map(([name, value]) => `${name} ${value.toFixed(0)}`);
  return `machine ${(100 * busyShare).toFixed(0)}% busy; CPU, µs a ${isStreamed ? 'token' : 'request'}: ${parts.join(', ')}`;
}

function busyIn(runs: readonly Run[], of: { row: string; load: string }): number {
  return spreadOf(runsOf(runs, of).map(busy))?.median ?? 0;
}

/** Of the rounds and their warm-up; undefined if nothing was counted. */
export function wrongIn({ runs, warmUps }: Pick<Results, 'runs' | 'warmUps'>): number | undefined {
  const counted = [...runs, ...warmUps].flatMap(({ books }) => (books === undefined ? [] : Object.values(books)));
  return counted.length === 0 ? undefined : counted.reduce((sum, count) => sum + count, 0);
}
