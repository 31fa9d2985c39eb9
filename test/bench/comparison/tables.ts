import { loads } from '../loads/load.ts';
import { barsOf, boundOf, verdictOf } from './bars.ts';
import { clusterLines, endpointLines, takenOn } from './documents.ts';
import type { Results, Run } from './results.ts';
import { isOurs, names } from './rows.ts';
import {
  compareRounds,
  cpuMicros,
  type Figure,
  memoryMiB,
  requestsPerSecond,
  runsOf,
  type Spread,
  spreadOf,
} from './summarise.ts';

type Cells = Record<string, string | number>;

/** Medians over the rounds, with the lowest and the highest where they matter. */
export function printTables(results: Results): void {
  const { taken, warnings, idleCpu, rounds, seconds } = results;
  console.log(`\n${takenOn(taken.peers)}`);
  for (const warning of warnings) console.log(`WARNING: ${warning}`);
  console.log(`All rows run all the time. Idle, they and the machine use ${percent(idleCpu)} of its time.`);
  for (const load of loads) {
    const ofLoad = results.runs.filter((run) => run.load === load.name);
    if (ofLoad.length === 0) continue;
    const isStreamed = load.kind === 'streams';
    const made = isStreamed ? 'streamed, 20 tokens a second for 3 s' : 'whole answers';
    console.log(`\n${load.name}, ${made}; medians of ${rounds} rounds of ${seconds} s (lowest–highest)`);
    show(results, load.name, isStreamed ? streamCells : wholeCells);
    show(results, load.name, costCells);
  }
}

export function reportCluster(results: Results): void {
  console.log(`\n${clusterLines(results).join('\n')}`);
}

export function reportEndpoints(results: Results): void {
  console.log(`\n${endpointLines(results).join('\n')}`);
}

export function printTruth({ truth, taken }: Pick<Results, 'truth' | 'taken'>): void {
  const byQuestion = Map.groupBy(truth, ({ question }) => question);
  const cells = [...byQuestion].map(([question, answers]) => [
    question,
    Object.fromEntries(answers.map(({ row, answer }) => [row, answer])),
  ]);
  console.log(`\nWhat holds; ${takenOn(taken.truth)}`);
  console.table(Object.fromEntries(cells));
}

export function printBars(results: Pick<Results, 'runs' | 'warmUps'>): void {
  const cells = barsOf(results).map((bar) => {
    const { claim, measured, atMost, atLeast, goal } = bar;
    const wanted = atMost === undefined ? `at least ${atLeast}` : `at most ${atMost}`;
    return [
      claim,
      {
        measured: measured?.toFixed(2) ?? '–',
        wanted,
        goal: goal ?? '',
        is: verdictOf(bar),
        bound: boundOf(bar, results),
      },
    ] as const;
  });
  console.log('\nClaims, in medians; one ingress and one worker unless the row says otherwise');
  console.table(Object.fromEntries(cells));
}

type CellsOf = (runs: readonly Run[], results: Results) => Cells;

function show(results: Results, load: string, cellsOf: CellsOf): void {
  const table = results.rows.map(({ name, missing }) => {
    const runs = runsOf(results.runs, { row: name, load });
    return [name, runs.length === 0 ? { missing: missing ?? 'not measured' } : cellsOf(runs, results)] as const;
  });
  console.table(Object.fromEntries(table));
}

const wholeCells: CellsOf = (runs, results) => ({
  'requests/s': shown(runs, requestsPerSecond, 0),
  'of the bare proxy': shareOfProxy(runs, results),
  'p50, ms': shown(runs, ({ p50Ms }) => p50Ms, 2),
  'p99, ms': shown(runs, ({ p99Ms }) => p99Ms, 2),
  failed: runs.reduce((sum, { failed }) => sum + failed, 0),
  ...booksCells(runs),
});

const streamCells: CellsOf = (runs) => ({
  'first token p50, ms': shown(runs, ({ stream }) => stream?.firstTokenP50Ms, 1),
  p99: shown(runs, ({ stream }) => stream?.firstTokenP99Ms, 1),
  'late p50, ms': shown(runs, ({ stream }) => stream?.lateP50Ms, 1),
  'late p99': shown(runs, ({ stream }) => stream?.lateP99Ms, 1),
  'between p50, ms': shown(runs, ({ stream }) => stream?.betweenP50Ms, 1),
  'between p99': shown(runs, ({ stream }) => stream?.betweenP99Ms, 1),
  'chunks/s': medianOf(runs, ({ stream }) => stream?.chunksPerSecond, 0),
  failed: runs.reduce((sum, { failed }) => sum + failed, 0),
  ...booksCells(runs),
});

const costCells: CellsOf = (runs) => ({
  'CPU µs/request': shown(runs, cpuMicros, 0),
  ...byProcess(runs, 'cpuMicros', 'µs'),
  'model server µs': medianOf(runs, ({ modelServerCpuMicros }) => modelServerCpuMicros, 0),
  'generator µs': medianOf(runs, ({ generatorCpuMicros }) => generatorCpuMicros, 0),
  'machine busy': percent(spreadOf(runs.map(({ machineCpu }) => machineCpu))?.median ?? 0),
  MiB: medianOf(runs, memoryMiB, 0),
  ...byProcess(runs, 'memoryMiB', 'MiB'),
});

function booksCells(runs: readonly Run[]): Cells {
  if (!runs.some(({ row }) => isOurs(row))) return {};
  const sum = (of: keyof NonNullable<Run['books']>) => runs.reduce((total, { books }) => total + (books?.[of] ?? 0), 0);
  return { 'over-admitted': sum('overAdmitted'), 'lost usage': sum('lostUsage'), duplicates: sum('duplicates') };
}

function byProcess(runs: readonly Run[], figure: 'cpuMicros' | 'memoryMiB', unit: string): Cells {
  const processes = Object.keys(runs[0]?.[figure] ?? {});
  return Object.fromEntries(
    processes.map((name) => [`${name} ${unit}`, medianOf(runs, (run) => run[figure][name], 0)]),
  );
}

function shareOfProxy(runs: readonly Run[], results: Results): string {
  const { row, load } = runs[0] ?? { row: '', load: '' };
  const by = { load, row, to: names.proxy, figure: requestsPerSecond, by: 'ratio' } as const;
  return spread(compareRounds(results.runs, by), 3);
}

const shown = (runs: readonly Run[], figure: Figure, digits: number) => spread(spreadOf(runs.map(figure)), digits);
const medianOf = (runs: readonly Run[], figure: Figure, digits: number) =>
  spreadOf(runs.map(figure))?.median.toFixed(digits) ?? '–';

function spread(of: Spread | undefined, digits: number): string {
  if (of === undefined) return '–';
  return `${of.median.toFixed(digits)} (${of.low.toFixed(digits)}–${of.high.toFixed(digits)})`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)}%`;
}
