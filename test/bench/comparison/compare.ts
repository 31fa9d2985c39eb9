import { setTimeout as sleep } from 'node:timers/promises';
import type { Gateway } from '../gateways/gateway.ts';
import type { Place } from '../gateways/places.ts';
import { loads as allLoads, type Load } from '../loads/load.ts';
import { busyShare, machineTicks } from '../processes.ts';
import type { Results, RowState, Run } from './results.ts';
import { rows as allRows, type Row } from './rows.ts';
import { runLoad } from './run-load.ts';
import { warningsOf } from './worth-writing.ts';

/**
 * Before the first load, for each row, because compilers optimize code that has run often. A request cost this service a fifth more after
 * 25 s than after 75.
 */
const defaultFirstWarmUpSeconds = 60;
const firstLoad = '64 clients';
/** Before each load, so that the code that is particular to it has run, too. */
const defaultWarmUpSeconds = 10;
const idleMs = 3_000;

type Options = Place & { peers: string; rounds: number; seconds: number; withPeers: boolean } & {
  firstWarmUpSeconds?: number;
  warmUpSeconds?: number;
  /** Default: all of them. */
  rows?: readonly Row[];
  loads?: readonly Load[];
};
type Compared = Pick<Results, 'idleCpu' | 'warnings' | 'rows' | 'runs' | 'warmUps'>;
type Up = { row: Row; gateway: Gateway };

/** So that a slow row is not measured by what is cut off at the end. */
const answersOfEachClient = 3;
const longerAtMost = 6;

/**
 * Measures every row under every load, in turns: a round measures each row once, and starts with another one each time. A peer that
 * cannot be installed or started gets a row that says so. One that answers nothing is not measured under that load. Any other failure
 * ends the comparison.
 */
export async function compare(options: Options): Promise<Compared> {
  const { rounds, seconds, modelServer, rows = allRows, loads = allLoads } = options;
  const { firstWarmUpSeconds = defaultFirstWarmUpSeconds, warmUpSeconds = defaultWarmUpSeconds } = options;
  await using parts = new AsyncDisposableStack();
  const up: Up[] = [];
  const states: RowState[] = [];
  for (const row of rows.filter(({ isPeer }) => options.withPeers || !isPeer)) {
    console.error(`starting ${row.name} …`);
    const state: RowState = { name: row.name, does: row.does };
    states.push(state);
    try {
      up.push({ row, gateway: parts.use(await row.start(options)) });
    } catch (error) {
      if (!row.isPeer) throw error;
      state.missing = String(error).split('\n')[0]?.slice(0, 300) ?? '';
      console.error(`${row.name}: ${state.missing}`);
    }
  }
  const idleCpu = await measureIdle();
  const warnings = warningsOf(idleCpu);
  for (const warning of warnings) console.error(`\nWARNING: ${warning}\n`);

  const warmUps: Results['warmUps'] = [];
  const runs: Run[] = [];
  const measureUnder = (load: Load, { row, gateway }: Up, forSeconds: number) =>
    unlessPeerFails(row, () => runLoad({ gateway, modelServer, load, seconds: forSeconds }));
  const warmUp = async (load: Load, one: Up, forSeconds: number) => {
    const run = await measureUnder(load, one, forSeconds);
    if (run?.books !== undefined) warmUps.push({ row: one.row.name, load: load.name, books: run.books });
    return run;
  };
  console.error('all rows: warming up …');
  for (const load of allLoads.filter(({ name }) => name === firstLoad)) {
    for (const one of up) await warmUp(load, one, firstWarmUpSeconds);
  }
  for (const load of loads) {
    console.error(`${load.name}: warming up …`);
    const lengths = new Map<Up, number>();
    for (const one of up) {
      const run = await warmUp(load, one, warmUpSeconds);
      const rate = run === undefined ? 0 : run.answered / run.seconds;
      const needed = load.kind === 'streams' ? 0 : Math.ceil((answersOfEachClient * load.clients) / rate);
      lengths.set(one, Math.min(longerAtMost * seconds, Math.max(seconds, needed)));
    }
    for (let round = 1; round <= rounds; round++) {
      for (const one of inTurn(up, round)) {
        const run = await measureUnder(load, one, lengths.get(one) ?? seconds);
        if (run !== undefined) runs.push({ row: one.row.name, round, ...run });
      }
      console.error(`${load.name}: round ${round} of ${rounds}: ${said(runs, { load: load.name, round })}`);
    }
  }
  return { idleCpu, warnings, rows: states, runs, warmUps };
}

async function unlessPeerFails<Value>(row: Row, measure: () => Promise<Value>): Promise<Value | undefined> {
  try {
    return await measure();
  } catch (error) {
    if (!row.isPeer) throw error;
    console.error(`${row.name}: ${error}`);
    return undefined;
  }
}

function inTurn<Value>(values: readonly Value[], round: number): Value[] {
  const first = round % values.length;
  return [...values.slice(first), ...values.slice(0, first)];
}

async function measureIdle(): Promise<number> {
  const before = await machineTicks();
  await sleep(idleMs);
  return busyShare(before, await machineTicks());
}

function said(runs: readonly Run[], { load, round }: { load: string; round: number }): string {
  return runs
    .filter((run) => run.load === load && run.round === round)
    .map(({ row, answered, seconds, failed, failures = {} }) => {
      const failing = failed === 0 ? '' : ` (${failed} failed: ${JSON.stringify(failures)})`;
      return `${row} ${(answered / seconds).toFixed(0)}/s${failing}`;
    })
    .join(', ');
}
