import { barsOf, boundOf, verdictOf } from './bars.ts';
import type { Results, Run, Taken } from './results.ts';
import { isOurs, names } from './rows.ts';
import { compareRounds, cpuMicros, type Figure, memoryMiB, requestsPerSecond, runsOf, spreadOf } from './summarise.ts';

const [begin, end] = ['<!-- figures of npm run bench -->', '<!-- end of the figures -->'];
const shown = [names.proxy, names.one, names.two, names.portkey, names.litellm];
const many = '64 clients';

/** The README with these figures between its two marks; fails where it has none. */
export function withFigures(readme: string, results: Results): string {
  const [from, to] = [readme.indexOf(begin), readme.indexOf(end)];
  if (from < 0 || to < from) throw new Error('the README has no place for figures');
  return `${readme.slice(0, from)}${begin}\n${figuresOf(results)}\n${readme.slice(to)}`;
}

function figuresOf(results: Results): string {
  const { taken, warnings, rounds, seconds } = results;
  const chart = (file: string, words: string) => `![${words}](test/bench/results/${file})`;
  return [
    [
      `${rounds} rounds of ${seconds} s on ${takenOn(taken.peers)}.`,
      ...warnings.map((each) => `**But ${each}.**`),
    ].join(' '),
    '',
    chart('requests.svg', 'Requests a second of each, as a share of a bare Koa proxy’s, with 1, 64 and 256 clients'),
    chart('cpu.svg', 'Processor time for a request of each, by process'),
    chart('streams.svg', 'Time to first token and lateness of tokens of each, above a bare Koa proxy'),
    '',
    ...costTable(results),
    '',
    'What it was to show, in medians, by one ingress and one worker where nothing else is said:',
    '',
    ...barsTable(results),
    '',
    scalingOf(results),
    '',
    `What holds of each, asked on ${takenOn(taken.truth)}:`,
    '',
    ...truthTable(results),
  ].join('\n');
}

export function takenOn(taken: Taken | undefined): string {
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
  return tableOf(['', 'measured', 'wanted', 'goal', 'verdict', 'measured with'], lines);
}

/** By what each process takes of a processor for a request, how many requests a second one of it can serve at most. */
function scalingOf({ runs }: Results): string {
  const one = runsOf(runs, { row: names.one, load: many });
  const parts = Object.keys(one[0]?.cpuMicros ?? {}).map((name) => {
    const micros = spreadOf(one.map((run) => run.cpuMicros[name]))?.median ?? Number.NaN;
    return `${name} ${micros.toFixed(0)} µs, so at most ${(10 * Math.round(100_000 / micros)).toFixed(0)} a second`;
  });
  const pairs = compareRounds(runs, {
    load: many,
    row: names.two,
    to: names.one,
    figure: requestsPerSecond,
    by: 'ratio',
  });
  const second =
    pairs === undefined ? '' : ` On this machine two pairs gave ${pairs.median.toFixed(2)} of what one did.`;
  return `What scales with what: of a processor a short request takes ${parts.join('; ')}.${second}`;
}

function costTable({ rows, runs, warmUps }: Results): string[] {
  const columns = ['', 'requests/s, 64 clients', 'p50, p99, ms', 'p50, ms, 1 client', 'CPU, µs a request', 'MiB'];
  const wrong = ['over-admitted, lost, twice'];
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

function truthTable({ truth }: Results): string[] {
  const asked = [...Map.groupBy(truth, ({ question }) => question)];
  const gateways = [...new Set(truth.map(({ row }) => row))];
  const lines = asked.map(([question, answers]) => [
    question,
    ...gateways.map((name) => answers.find(({ row }) => row === name)?.answer ?? ''),
  ]);
  return tableOf(['', ...gateways], lines);
}

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
