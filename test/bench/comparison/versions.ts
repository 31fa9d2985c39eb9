import { serviceRow } from '../gateways/start-service.ts';
import { type Load, streamTokens } from '../loads/load.ts';
import { compare } from './compare.ts';
import { openPlace } from './parts.ts';
import type { Results, Run } from './results.ts';
import type { Row } from './rows.ts';
import { compareRounds, cpuMicros, type Figure, requestsPerSecond, type Spread, spreadOf } from './summarise.ts';

/** `against`: a checkout of another version, with its dependencies installed. */
type Options = { rounds: number; seconds: number; loads: readonly Load[]; against: string };

const [before, after] = ['before', 'after'];

/** Compares this version with another one, in turns: the processor time of each process for a request, or for a token of a stream. */
export async function compareVersions({ against, loads, ...options }: Options): Promise<void> {
  await using place = await openPlace(undefined);
  const row = (name: string, root?: string): Row => ({
    ...{ name, does: root ?? 'this version' },
    start: (where) => serviceRow({ ...where, name, ...(root !== undefined && { root }) }),
  });
  const rows = [row(before, against), row(after)];
  const { runs } = await compare({ ...place, ...options, rows, loads, withPeers: false });
  for (const load of loads) {
    const unit = load.kind === 'streams' ? 'token' : 'request';
    console.log(
      `\n${load.name}; medians of ${options.rounds} rounds of ${options.seconds} s (lowest–highest); CPU in µs a ${unit}`,
    );
    console.table(
      Object.fromEntries(figuresOf(load, runs).map(([name, figure]) => [name, cells(runs, { load, figure })])),
    );
  }
}

type Named = readonly [string, Figure];

function figuresOf(load: Load, runs: Results['runs']): Named[] {
  const parts = load.kind === 'streams' ? streamTokens : 1;
  const processes = Object.keys(runs[0]?.cpuMicros ?? {});
  const cpu: Named[] = [
    ['CPU', (run) => (cpuMicros(run) ?? Number.NaN) / parts],
    ...processes.map((name): Named => [`CPU ${name}`, (run) => (run.cpuMicros[name] ?? Number.NaN) / parts]),
  ];
  if (load.kind !== 'streams') {
    return [
      ...cpu,
      ['requests/s', requestsPerSecond],
      ['p50, ms', ({ p50Ms }) => p50Ms],
      ['p99, ms', ({ p99Ms }) => p99Ms],
    ];
  }
  return [
    ...cpu,
    ['first token p50, ms', ({ stream }) => stream?.firstTokenP50Ms],
    ['a token late p50, ms', ({ stream }) => stream?.lateP50Ms],
    ['a token late p99, ms', ({ stream }) => stream?.lateP99Ms],
  ];
}

function cells(runs: readonly Run[], { load, figure }: { load: Load; figure: Figure }): Record<string, string> {
  const of = (row: string) =>
    shown(spreadOf(runs.filter((run) => run.row === row && run.load === load.name).map(figure)), 1);
  const ratio = compareRounds(runs, { load: load.name, row: after, to: before, figure, by: 'ratio' });
  return { before: of(before), after: of(after), ratio: shown(ratio, 3) };
}

function shown(spread: Spread | undefined, digits: number): string {
  if (spread === undefined) return '–';
  return `${spread.median.toFixed(digits)} (${spread.low.toFixed(digits)}–${spread.high.toFixed(digits)})`;
}
