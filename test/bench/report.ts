import type { BatchRun } from './batches.ts';
import type { Costs, Fleet } from './comparison/results.ts';
import { commandsPerSecond, cpuMsPerSecond, type Idle, type IdleFigures } from './costs/idle.ts';
import type { Fairness } from './fairness.ts';
import type { Round } from './lanes.ts';
import { median } from './measure.ts';
import type { Overload } from './overload.ts';
import type { PromisedTime } from './promises.ts';
import type { WaitTimes } from './waiting.ts';

export type Cells = Record<string, string | number>;

export function reportOverload(loads: Record<string, Overload>): void {
  show('Overload: more requests than the slots of the backends, at a fixed pace', loads, (load) => ({
    'served/s': load.servedPerSecond.toFixed(1),
    'p50, ms': load.servedP50Ms.toFixed(0),
    'p99, ms': load.servedP99Ms.toFixed(0),
    'refused/s': load.refusedPerSecond.toFixed(1),
    'refused p50, ms': load.refusedP50Ms.toFixed(1),
    'refused p99, ms': load.refusedP99Ms.toFixed(0),
    failed: load.failed,
    'CPU busy': percent(load.cpu),
  }));
}

/** Returns whether every promise was kept. */
export function reportPromises(rows: readonly PromisedTime[]): boolean {
  const isKept = ({ barMs, measuredMs }: PromisedTime) => measuredMs.length > 0 && Math.max(...measuredMs) <= barMs;
  show('Promised times, in seconds', Object.fromEntries(rows.map((row) => [row.promise, row])), (row) => ({
    median: (median(row.measuredMs) / 1_000).toFixed(2),
    longest: (Math.max(...row.measuredMs) / 1_000).toFixed(2),
    bar: (row.barMs / 1_000).toFixed(1),
    kept: isKept(row) ? 'yes' : 'NO',
  }));
  return rows.every(isKept);
}

export function reportBatch(run: BatchRun): void {
  const { capacityPerSecond, rawPerSecond, runPerSecond, submittedToEndPerSecond, seconds } = run;
  const shares = (rate: number) => ({
    'a second': rate.toFixed(1),
    'of the capacity': percent(rate / capacityPerSecond),
    'of the raw rate': percent(rate / rawPerSecond),
  });
  const rates = {
    'slots over the time of a call': capacityPerSecond,
    'calls directly to the backends': rawPerSecond,
    'lines while it runs': runPerSecond,
    'lines from submission to the end': submittedToEndPerSecond,
  };
  show(`Batches: ${run.lines} lines of one account, two workers, one ingress`, rates, shares);
  show('of which, in seconds', { seconds }, (each) => map(each, (value) => value.toFixed(1)));
  show('Processes', run.memory, (memory, name) => ({
    'CPU, ms a line': (run.cpuMsPerLine[name] ?? Number.NaN).toFixed(3),
    'MiB, first quarter': memory.firstMiB.toFixed(0),
    'last quarter': memory.lastMiB.toFixed(0),
    most: memory.mostMiB.toFixed(0),
    'MiB a minute, from the second quarter': memory.mibPerMinute.toFixed(2),
  }));
  show('Lines', { lines: run.outcomes }, (each) => ({
    ...each,
    'calls a line': run.callsPerLine,
    retries: run.retries,
    'CPU busy': percent(run.cpu),
    'by other processes': percent(run.othersCpu),
  }));
  show('Tokens, as counted by', { tokens: run.tokens }, (each) => each);
  console.log(JSON.stringify({ batches: run }));
}

export function reportFairness(sizes: { large: number; small: number }, fairness: Record<string, Fairness>): void {
  const title = `Fairness: ${sizes.small} lines submitted while ${sizes.large} of another model of the pool run`;
  show(title, fairness, (each) => ({
    'alone, ms': each.aloneMs.toFixed(0),
    'beside, ms': each.besideMs.toFixed(0),
    ratio: each.ratio.toFixed(2),
    'lines of the large one in that time': each.besideLines,
    'of them a second': each.largePerSecond.toFixed(0),
  }));
  console.log(JSON.stringify({ fairness }));
}

/** Medians over the rounds. A ratio is computed within each pair first, because the machine's speed drifts between them. */
export function reportLanes(what: string, pairs: readonly { off: Round; on: Round }[]): void {
  const medianOf = (side: 'off' | 'on', figure: keyof Round) => median(pairs.map((pair) => pair[side][figure]));
  const side = (name: 'off' | 'on') => ({
    'p50, ms': medianOf(name, 'p50Ms').toFixed(0),
    'p99, ms': medianOf(name, 'p99Ms').toFixed(0),
    failed: pairs.reduce((sum, pair) => sum + pair[name].failed, 0),
    'lines/s': medianOf(name, 'linesPerSecond').toFixed(1),
    'slots in use': percent(medianOf(name, 'slots')),
    'CPU busy': percent(medianOf(name, 'cpu')),
  });
  const ratio = (figure: 'p50Ms' | 'p99Ms') => median(pairs.map(({ off, on }) => on[figure] / off[figure])).toFixed(3);
  const rows = {
    'without lines of batches': side('off'),
    'with as many as the lane takes': side('on'),
    ratio: { 'p50, ms': ratio('p50Ms'), 'p99, ms': ratio('p99Ms') },
  };
  show(`Lanes: interactive requests, ${what}; medians of ${pairs.length} pairs of rounds`, rows, (row: Cells) => row);
  console.log(JSON.stringify({ lanes: { what, pairs } }));
}

export function reportWaiting({ otherModel, otherAccount, equal }: WaitTimes): void {
  const ofRounds = (title: string, rows: Record<string, readonly { p50Ms: number; p95Ms: number }[]>) =>
    show(title, rows, (all) => ({
      'p50, ms': median(all.map(({ p50Ms }) => p50Ms)).toFixed(0),
      'p95, ms': median(all.map(({ p95Ms }) => p95Ms)).toFixed(0),
    }));
  ofRounds('Waiting: answers of a model beside another one of its pool', otherModel);
  ofRounds('Waiting: time in the queue of an account beside another one (x-svc-queue-ms)', otherAccount);
  show('Waiting: answers of two accounts with 40 clients each', { equal }, (each) => each);
  console.log(JSON.stringify({ waiting: { otherModel, otherAccount, equal } }));
}

export function reportIdle(version: string, { one, two }: IdleFigures): void {
  const rows = { 'one ingress, one worker': one, 'another worker': two };
  show(`Idle: ${version}, per second`, rows, (idle: Idle) => ({
    'CPU, ms': cpuMsPerSecond(idle).toFixed(1),
    ...map(idle.cpuMs, (ms) => ms.toFixed(1)),
    'Redis commands': commandsPerSecond(idle).toFixed(0),
  }));
  const commands = Object.keys({ ...one.commands, ...two.commands }).toSorted();
  const perSecond = (idle: Idle, command: string) => (idle.commands[command] ?? 0).toFixed(1);
  show('of which, by command', Object.fromEntries(commands.map((command) => [command, command])), (command) =>
    map(rows, (idle) => perSecond(idle, command)),
  );
  console.log(JSON.stringify({ idle: { version, one, two } }));
}

export function reportFleet({ workers, models }: Fleet): void {
  const rows = Object.fromEntries(workers.map((row) => [`${row.workers} workers`, row]));
  show('Fleet: Redis commands a second, including those of scripts', rows, ({ idle, loaded, openBatches }) =>
    map({ idle, loaded, openBatches }, (each) => each.toFixed(0)),
  );
  const ofModels = Object.fromEntries(models.map((row) => [`${row.models} models`, row]));
  show('Fleet: an additional idle worker', ofModels, ({ commands, connections }) => ({
    'Redis commands/s': commands.toFixed(0),
    connections,
  }));
}

export function reportCosts({ scripts, takeoverMs }: Costs): void {
  show('Redis scripts, µs of its processor a call', { scripts }, (each) => map(each, (micros) => micros.toFixed(1)));
  const seconds = (ms: number | undefined) => ((ms ?? Number.NaN) / 1_000).toFixed(1);
  show('Runs of a killed worker that started again, s after its end', { runs: takeoverMs }, (each) => ({
    ...{ runs: each.length, first: seconds(each[0]) },
    ...{ median: seconds(median(each)), last: seconds(each.at(-1)) },
  }));
}

export function show<Row>(title: string, rows: Record<string, Row>, cellsOf: (row: Row, name: string) => Cells): void {
  console.log(`\n${title}`);
  console.table(map(rows, cellsOf));
}

function map<From, To>(record: Record<string, From>, change: (value: From, name: string) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(0)}%`;
}
