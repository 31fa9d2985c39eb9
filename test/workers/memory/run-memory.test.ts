import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import test from 'ava';
import { outboxLengthFor } from '../../../shared/jobs/usage-outbox.ts';
import { estimateMemory } from '../../../workers/memory/estimate-memory.ts';
import { itemBytes } from '../../../workers/memory/item-bytes.ts';
import { parseMemoryArguments, reportOf, usageText } from '../../../workers/memory/run-memory.ts';

const run = promisify(execFile);
const command = (...args: string[]) => run(process.execPath, ['workers/memory/memory-main.ts', ...args]);

test('each option is a number, and each has a value if it is not set', (t) => {
  const usual = parseMemoryArguments([]);
  t.like(usual, { accounts: 0, requestsPerSecond: 0, bodyKib: 4, runningSeconds: 10, deadlineSeconds: 600 });
  for (const [, name = ''] of usageText.matchAll(/^ {2}--([a-z-]+) .*\(\d+\)$/gm)) {
    t.notDeepEqual(parseMemoryArguments([`--${name}`, '12.5']), usual, name);
  }
  t.is(parseMemoryArguments(['--help']), 'help');
});

test('an unknown option, or a value that is no number of at least 0, is refused', (t) => {
  for (const args of [['--users', '1'], ['--accounts', '-1'], ['--accounts', 'many'], ['--accounts', ''], ['5']]) {
    t.is(parseMemoryArguments(args), undefined, args.join(' '));
  }
});

test('says whether the default bound of the outboxes is enough for the time that the store may be away', (t) => {
  const linesFor = (args: string) => {
    const demand = parseMemoryArguments(args.split(' '));
    if (demand === undefined || demand === 'help') throw new Error('the arguments are wrong');
    const estimate = estimateMemory(demand, itemBytes);
    return { estimate, line: reportOf(estimate).find((each) => each.includes('OUTBOX_LENGTH_MAX')) ?? '' };
  };
  const long = linesFor('--requests-per-second 200 --store-away-hours 4');
  t.true(long.estimate.outboxLength > outboxLengthFor(undefined, long.estimate.maxmemoryBytes));
  t.true(long.line.endsWith(`at least ${long.estimate.outboxLength}`));
  const short = linesFor('--requests-per-second 20');
  t.regex(short.line, /leave it unset, the default of \d+ is enough$/);
});

test('says what an account leaves that its plan does not bound', (t) => {
  const demand = parseMemoryArguments(['--deadline-seconds', '600']);
  if (demand === undefined || demand === 'help') throw new Error('the arguments are wrong');
  const bytes = 70_000 * itemBytes.redis.endedMark.bytes;
  t.is(estimateMemory(demand, itemBytes).thousandPerMinuteBytes, bytes);
  const report = reportOf(estimateMemory(demand, itemBytes)).join(' ');
  t.true(report.includes(`leaves   ${Math.round(bytes / 1_048_576)} MiB for each 1,000 requests`), report);
});

test('the command prints the parts and their sums, and the help', async (t) => {
  const { stdout } = await command('--accounts', '1000', '--requests-per-second', '10');
  t.regex(stdout, /^Redis\n( {2}.* [\d.]+ [KMGT]iB\n)+ {2}OUTBOX_LENGTH_MAX: .*\n(.*\n){2}\nStore +SQLite +MongoDB\n/);
  t.is((await command('--help')).stdout, usageText);
});

test('the command fails with the help for wrong arguments', async (t) => {
  const { code, stderr, stdout } = await t.throwsAsync<Error & { code: number; stderr: string; stdout: string }>(
    command('--accounts', 'x'),
  );
  t.deepEqual([code, stdout, stderr], [2, '', usageText]);
});
