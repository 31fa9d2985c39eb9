import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { serviceRow } from '../gateways/start-service.ts';
import { type Load, streamTokens } from '../loads/load.ts';
import { compare } from './compare.ts';
import { openPlace } from './parts.ts';
import type { Results, Run } from './results.ts';
import type { Row } from './rows.ts';
import { compareRounds, cpuMicros, type Figure, requestsPerSecond, type Spread, spreadOf } from './summarise.ts';

/**
 * The version that all later ones are compared with, so that costs that grow a little with each change are seen: the first one with a queue
 * for each model.
 */
export const fixedPoint = '046bd61';

/** `against`: another version beside the fixed point: a folder with a checkout and its dependencies, or a commit of this repository. */
type Options = { rounds: number; seconds: number; loads: readonly Load[]; against: readonly string[] };

const own = 'this version';
const control = 'this version again';

/**
 * Compares this version with others, in turns: the processor time of each process for a request, or for a token of a stream. This version
 * runs twice: what its two copies differ by is what the machine alone changes.
 */
export async function compareVersions({ against, loads, ...options }: Options): Promise<void> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(await openPlace(undefined));
  const others = [...new Set([fixedPoint, ...against])];
  const roots = new Map<string, string>();
  for (const name of others) roots.set(name, parts.use(await openVersion(name)).root);
  const row = (name: string, root?: string): Row => ({
    ...{ name, does: root ?? name },
    start: (where) => serviceRow({ ...where, name: name.replaceAll('/', '-'), ...(root !== undefined && { root }) }),
  });
  const rows = [
    ...others.map((name) => row(name, roots.get(name))),
    ...[own, control].map((name) => row(name, process.cwd())),
  ];
  const { runs } = await compare({ ...place, ...options, rows, loads, withPeers: false });
  for (const load of loads) {
    const unit = load.kind === 'streams' ? 'token' : 'request';
    console.log(
      `\n${load.name}; medians of ${options.rounds} rounds of ${options.seconds} s (lowest–highest); CPU in µs a ${unit}`,
    );
    const table = figuresOf(load, runs).map(([name, figure]) => [name, cells(runs, { load, figure, others })] as const);
    console.table(Object.fromEntries(table));
  }
}

/** A folder as it is, or a new checkout of a commit, with its dependencies installed, which is removed in the end. */
async function openVersion(name: string): Promise<AsyncDisposable & { root: string }> {
  if (existsSync(join(name, 'package.json'))) return { root: resolve(name), [Symbol.asyncDispose]: async () => {} };
  await using parts = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'inference-version-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const root = join(folder, 'checkout');
  console.error(`installing ${name} …`);
  await run('git', ['worktree', 'add', '--quiet', '--detach', root, name]);
  parts.defer(() => run('git', ['worktree', 'remove', '--force', root]));
  await run('npm', ['ci', '--omit=dev', '--silent'], root);
  const owned = parts.move();
  return { root, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function run(command: string, args: readonly string[], cwd = process.cwd()): Promise<void> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}`);
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

type Compared = { load: Load; figure: Figure; others: readonly string[] };

/** Of each version, of this one as a multiple of each other one, and of its second copy as a multiple of the first. */
function cells(runs: readonly Run[], { load, figure, others }: Compared): Record<string, string> {
  const of = (row: string) =>
    shown(spreadOf(runs.filter((run) => run.row === row && run.load === load.name).map(figure)), 1);
  const ratio = (row: string, to: string) =>
    shown(compareRounds(runs, { load: load.name, row, to, figure, by: 'ratio' }), 3);
  return {
    ...Object.fromEntries([...others, own].map((row) => [row, of(row)])),
    ...Object.fromEntries(others.map((row) => [`ratio to ${row}`, ratio(own, row)])),
    'the same twice': ratio(control, own),
  };
}

function shown(spread: Spread | undefined, digits: number): string {
  if (spread === undefined) return '–';
  return `${spread.median.toFixed(digits)} (${spread.low.toFixed(digits)}–${spread.high.toFixed(digits)})`;
}
