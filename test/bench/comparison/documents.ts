import { needOf, requestLoad, streamLoad } from '../capacity.ts';
import { streamTokensPerSecond } from '../loads/load.ts';
import { barsOf, boundOf, verdictOf } from './bars.ts';
import type { Fleet, MeasurementOrigin, Results, Run } from './results.ts';
import { isOurs, names } from './rows.ts';
import { compareRounds, cpuMicros, type Figure, memoryMiB, requestsPerSecond, runsOf, spreadOf } from './summarise.ts';

const [begin, end] = ['<!-- figures of npm run bench -->', '<!-- end of the figures -->'];
const shown = [names.proxy, names.one, names.two, names.portkey, names.litellm, names.smg];
const many = '64 clients';

/** The content of each chart of `results/`. */
const chartWords: Readonly<Record<string, string>> = {
  'requests.svg': 'requests per second',
  'cpu.svg': 'processor time of a request',
  'streams.svg': 'first token and delay of tokens',
};

/** Returns the page about benchmarks with these results between its two marks. Throws if the page has no marks. */
export function withResults(page: string, results: Results): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error('the page has no place for figures');
  return `${page.slice(0, from)}${begin}\n${partsOf(results).join('\n')}\n${page.slice(to)}`;
}

function partsOf(results: Results): string[] {
  return [
    ...[howMeasured(results), ...howCostsWereMeasured(results)],
    ...section('Cost of a request', [...costTable(results), '', chartLinks]),
    ...section('Where the time goes', sharesTable(results)),
    ...section('Claims and results', [aboutClaims, '', ...barsTable(results)]),
    ...section('Capacity of a processor', capacityOf(results)),
    ...section('Limits under failures', [`Measured on ${takenOn(results.taken.truth)}:`, '', ...truthTable(results)]),
    ...section('Redis commands of a fleet', [
      'Redis commands per second of one ingress and several workers, including those of scripts, on',
      `${takenOn(results.taken.fleet)}:`,
      '',
      ...fleetTable(results.fleet),
    ]),
    ...section('One Redis and a cluster', clusterLines(results)),
    ...section('Endpoints', endpointLines(results)),
  ];
}

function section(heading: string, lines: readonly string[]): string[] {
  return ['', `## ${heading}`, '', ...lines];
}

/** The charts of `results/`: the pages of the service show their names, a repository links them. */
const chartLinks = `Charts in the repository: ${Object.keys(chartWords)
  .map((file) => `[\`${file}\`](../../test/bench/results/${file}) (${chartWords[file]})`)
  .join(', ')}.`;

const aboutClaims =
  'Each bound is set before the figures that it is for; one that was changed after these figures is for the next ones. The figures are medians of one ingress and one worker, unless the claim says otherwise. The wait for a killed worker is the longest one, with two workers.';

function howMeasured({ taken, warnings, rounds, seconds }: Results): string {
  const words = `${rounds} rounds of ${seconds} s on ${takenOn(taken.peers)}.`;
  return [words, ...warnings.map((each) => `**Warning: ${each}.**`)].join(' ');
}

function howCostsWereMeasured({ taken: { costs } }: Results): string[] {
  return costs === undefined ? [] : [`Idle processes, scripts and a killed worker: ${takenOn(costs)}.`];
}

export function takenOn(taken: MeasurementOrigin | undefined): string {
  if (taken === undefined) return 'no machine yet';
  const { machine, date } = taken;
  return `${machine.processors} processors (${machine.model}), Node ${machine.node}, ${date}`;
}

function barsTable(results: Results): string[] {
  const lines = barsOf(results).map((bar) => {
    const { claim, measured, atMost, atLeast, goal } = bar;
    const wanted = atMost === undefined ? `at least ${atLeast}` : `at most ${atMost}`;
    const figures = [measured?.toPrecision(3) ?? '–', wanted, goal === undefined ? '' : String(goal)];
    return [claim, ...figures, verdictOf(bar), boundOf(bar, results)];
  });
  return tableOf(['claim', 'measured', 'bound', 'goal', 'verdict', 'measured with'], lines);
}

/** How many requests or streams one processor can serve at most, by the processor time of each process. */
function capacityOf(results: Results): string[] {
  const lines = (['ingress', 'worker', 'redis'] as const).map((name) => {
    const { requestMicros, tokenMicros, streamKib } = needOf(results, name);
    return [
      name,
      `${rounded(1e6 / requestMicros)} (${requestMicros.toFixed(0)} µs each)`,
      Number.isNaN(tokenMicros)
        ? '–'
        : `${rounded(1e6 / tokenMicros / streamTokensPerSecond)} (${tokenMicros.toFixed(0)} µs a token)`,
      Number.isNaN(streamKib) ? '–' : `${streamKib.toFixed(0)} KiB`,
    ];
  });
  return tableOf(
    [
      'one processor of',
      `requests/s, by ${requestLoad}`,
      `streams of ${streamTokensPerSecond} tokens/s, by ${streamLoad}`,
      'memory a stream',
    ],
    lines,
  );
}

/** Rounded to two digits, because more would promise too much. */
function rounded(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(2))) : '–';
}

function costTable({ rows, runs, warmUps }: Results): string[] {
  const columns = [
    'gateway',
    'requests/s, 64 clients',
    'p50, p99, ms',
    'p50, ms, 1 client',
    'CPU, µs a request',
    'MiB',
  ];
  const wrong = ['over-admitted, lost, duplicates'];
  const lines = shown.map((row) => {
    const missing = rows.find(({ name }) => name === row)?.missing;
    const of = runsOf(runs, { row, load: many });
    if (of.length === 0) return [row, missing ?? 'not measured', '', '', '', '', ''];
    const share = compareRounds(runs, { load: many, row, to: names.proxy, figure: requestsPerSecond, by: 'ratio' });
    return [
      row,
      `${middle(of, requestsPerSecond, 0)} (${share?.median.toFixed(3)} of the proxy’s)`,
      `${middle(of, ({ p50Ms }) => p50Ms, 0)}, ${middle(of, ({ p99Ms }) => p99Ms, 0)}`,
      middle(runsOf(runs, { row, load: '1 client' }), ({ p50Ms }) => p50Ms, 2),
      middle(of, cpuMicros, 0),
      middle(of, memoryMiB, 0),
      isOurs(row) ? wrongOf([...runs, ...warmUps].filter((run) => run.row === row)) : '–',
    ];
  });
  return tableOf([...columns, ...wrong], lines);
}

/** A place that takes less of every process has no row. */
const shownShareMin = 0.02;

function sharesTable({ costs }: Results): string[] {
  const shares = costs?.shares ?? [];
  const places = [...new Set(shares.flatMap((of) => Object.keys(of.shares)))];
  const most = (place: string) => Math.max(...shares.map((of) => of.shares[place] ?? 0));
  const lines = places
    .filter((place) => most(place) >= shownShareMin)
    .toSorted((one, other) => most(other) - most(one))
    .map((place) => [place, ...shares.map((of) => `${(100 * (of.shares[place] ?? 0)).toFixed(0)} %`)]);
  return [
    'Shares of the time of a main thread that is not idle, by a profile of one ingress and one worker under loads of streams:',
    '',
    ...tableOf(['spent in', ...shares.map(({ load, process }) => `${process}, ${load}`)], lines),
  ];
}

function truthTable({ truth }: Results): string[] {
  const asked = [...Map.groupBy(truth, ({ question }) => question)];
  const gateways = [...new Set(truth.map(({ row }) => row))];
  const lines = asked.map(([question, answers]) => [
    question,
    ...gateways.map((name) => answers.find(({ row }) => row === name)?.answer ?? ''),
  ]);
  return tableOf(['question', ...gateways], lines);
}

function fleetTable({ workers, models }: Fleet = { workers: [], models: [] }): string[] {
  const rows = (['idle', 'loaded', 'openBatches'] as const).map((figure) => {
    const [few, many] = [workers.at(0), workers.at(-1)];
    const each = many && few ? (many[figure] - few[figure]) / (many.workers - few.workers) : Number.NaN;
    const first = few ? few[figure] - each * few.workers : Number.NaN;
    const formula = `${first.toFixed(0)} + ${each.toFixed(1)} × workers`;
    return [fleetWords[figure], ...workers.map((row) => row[figure].toFixed(0)), formula];
  });
  const counts = workers.map((row) => `${row.workers} worker${row.workers === 1 ? '' : 's'}`);
  return [
    ...tableOf(['load', ...counts, 'any number'], rows),
    '',
    ...tableOf(
      ['one more idle worker', 'Redis commands/s', 'connections to Redis'],
      models.map((row) => [`with ${row.models} models`, row.commands.toFixed(0), String(row.connections)]),
    ),
    '',
    'This is the second worker. It costs more than later ones.',
  ];
}

/** Medians of the rounds, and the limits of the service on a cluster. */
export function clusterLines({ cluster, taken }: Pick<Results, 'cluster' | 'taken'>): string[] {
  if (cluster === undefined) return ['Not measured yet.'];
  const { rounds, seconds, warnings, truth } = cluster;
  return [
    `This service with one ingress and one worker, with one Redis and with a cluster of three masters without replicas. Medians of ${rounds} rounds of ${seconds} s on ${takenOn(taken.cluster)}. All processes share these processors, so the table shows what a cluster costs, not what more machines give. CPU is for one request, and that of Redis is of all nodes. One account sends all requests.`,
    ...warnings.map((each) => `\n**Warning: ${each}.**`),
    '',
    ...mediansTable(cluster, ({ load, row }) => `${load}, ${row}`),
    '',
    ...tableOf(
      ['limits on the cluster', 'answer'],
      truth.map(({ question, answer }) => [question, answer]),
    ),
  ];
}

/** Medians of the rounds, by endpoint. */
export function endpointLines({ endpoints, taken }: Pick<Results, 'endpoints' | 'taken'>): string[] {
  if (endpoints === undefined) return ['Not measured yet.'];
  const { rounds, seconds, warnings } = endpoints;
  return [
    `One ingress and one worker for each endpoint, measured in turns. A chat completion has five tokens, an embedding is a vector of 1,024 numbers in base64. Medians of ${rounds} rounds of ${seconds} s on ${takenOn(taken.endpoints)}. CPU is for one request.`,
    ...warnings.map((each) => `\n**Warning: ${each}.**`),
    '',
    ...mediansTable(endpoints, ({ row }) => row),
  ];
}

/** Medians of the runs with 64 clients, by name, and all wrong requests of each row. */
function mediansTable({ runs, warmUps }: Pick<Results, 'runs' | 'warmUps'>, nameOf: (run: Run) => string): string[] {
  const byName = [...Map.groupBy(runs, nameOf)].toSorted(([one], [other]) => one.localeCompare(other));
  const measured = byName.map(([name, of]) => {
    const cpu = (process: string) => middle(of, ({ cpuMicros }) => cpuMicros[process] ?? Number.NaN, 0);
    const row = of[0]?.row;
    return [
      ...[
        name,
        middle(of, requestsPerSecond, 0),
        middle(of, ({ p50Ms }) => p50Ms, 0),
        middle(of, ({ p99Ms }) => p99Ms, 0),
      ],
      ...['ingress', 'worker', 'redis'].map(cpu),
      wrongOf([...runs, ...warmUps].filter((run) => run.row === row)),
    ];
  });
  const head = ['64 clients', 'requests/s', 'p50, ms', 'p99, ms', 'ingress CPU, µs', 'worker', 'Redis'];
  return tableOf([...head, 'over-admitted, lost, duplicates in all runs'], measured);
}

const fleetWords = {
  idle: 'idle',
  loaded: '50 requests a second',
  openBatches: '200 accounts with waiting batches',
} as const;

function wrongOf(runs: readonly Pick<Run, 'books'>[]): string {
  const sum = (of: keyof NonNullable<Run['books']>) => runs.reduce((total, { books }) => total + (books?.[of] ?? 0), 0);
  return `${sum('overAdmitted')}, ${sum('lostUsage')}, ${sum('duplicates')}`;
}

function middle(runs: readonly Run[], figure: Figure, digits: number): string {
  return spreadOf(runs.map(figure))?.median.toFixed(digits) ?? '–';
}

function tableOf(head: readonly string[], lines: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replace(/\|/g, '\\|')).join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...lines.map(line)];
}
