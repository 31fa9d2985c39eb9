import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';
import { sourceFiles } from '../support/source-files.ts';
import { chooseTests } from './choose-tests.ts';

const usage = `Usage: npm run mutate -- <file or folder> ... [--with <test file>] [--jobs <number>] [--list]
Changes each TypeScript file in many small ways, one at a time, and runs the file's tests against each change. A change that
no test detects is a survivor: a gap in the tests, or code without an effect. Lua scripts are not changed.
--with  also runs this test file, and may be repeated: for tests that reach the file through test/support
--jobs  how many changes are tested at once (default: one for each processor)
--list  prints the test files of each file and changes nothing
Each file gets a report at node_modules/.cache/mutation/<path>.html.`;

type MutantResult = Awaited<ReturnType<Stryker['runMutationTest']>>[number];
type Tally = { killed: number; timedOut: number; survived: number };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    with: { type: 'string', multiple: true, default: [] },
    jobs: { type: 'string', default: String(availableParallelism()) },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const jobs = Number(values.jobs);
const files = sourceFiles(/^(ingress|workers|shared|test)\/.*\.(ts|mjs)$/);
const mutated = files
  .map(({ path }) => path)
  .filter((path) => /^(ingress|workers|shared)\/.*\.ts$/.test(path))
  .filter((path) => positionals.some((asked) => path === asked || path.startsWith(`${asked.replace(/\/$/, '')}/`)));

if (values.help || mutated.length === 0 || !(jobs >= 1)) {
  console.log(positionals.length > 0 && mutated.length === 0 ? `No such source file.\n${usage}` : usage);
  process.exit(values.help ? 0 : 2);
}

// Outside the project: ava would find the tests of the copy, and Node strips no types below `node_modules`.
const directory = mkdtempSync(join(tmpdir(), 'inference-mutants-'));
process.once('exit', () => rmSync(directory, { recursive: true, force: true }));

const tallies: Tally[] = [];
for (const path of mutated) {
  const tests = [...new Set([...chooseTests(files, path), ...values.with])];
  if (values.list || tests.length === 0) {
    console.log(`${path}: ${tests.join(' ') || 'no test imports it'}`);
    continue;
  }
  try {
    const results = await mutate(path, tests);
    const tally = tallyOf(results);
    tallies.push(tally);
    console.log([`${path}: ${scoreOf(tally)}`, ...survivorsOf(path, results)].join('\n'));
  } catch {
    console.error(`${path}: its tests fail without any change, or cannot run on a copy of the project`);
    process.exitCode = 1;
  }
}
if (tallies.length > 1) console.log(`all files: ${scoreOf(sumOf(tallies))}`);

function mutate(path: string, tests: readonly string[]): Promise<MutantResult[]> {
  const stryker = new Stryker({
    mutate: [path],
    testRunner: 'command',
    commandRunner: {
      command: `node_modules/.bin/ava --config test/suite/ava.config.mjs --fail-fast ${tests.join(' ')}`,
    },
    concurrency: jobs,
    tempDirName: directory,
    ignorePatterns: ['.data', '.bench'],
    // Stryker reads this file through the JavaScript API of TypeScript, which version 7 does not have.
    tsconfigFile: 'none',
    reporters: ['html'],
    htmlReporter: { fileName: `node_modules/.cache/mutation/${path}.html` },
    allowConsoleColors: false,
    logLevel: 'error' as never, // a member of an enum in its types, which its entry point does not export
  });
  return stryker.runMutationTest();
}

function tallyOf(results: readonly MutantResult[]): Tally {
  const count = (status: string) => results.filter((result) => result.status === status).length;
  return { killed: count('Killed'), timedOut: count('Timeout'), survived: count('Survived') };
}

function sumOf(all: readonly Tally[]): Tally {
  const sum = (count: (tally: Tally) => number) => all.reduce((total, tally) => total + count(tally), 0);
  return {
    killed: sum(({ killed }) => killed),
    timedOut: sum(({ timedOut }) => timedOut),
    survived: sum(({ survived }) => survived),
  };
}

function scoreOf({ killed, timedOut, survived }: Tally): string {
  const all = killed + timedOut + survived;
  if (all === 0) return 'nothing to change';
  const share = ((100 * (killed + timedOut)) / all).toFixed(1);
  return `${share}% of ${all} changes detected (killed ${killed}, timed out ${timedOut}, survived ${survived})`;
}

function survivorsOf(path: string, results: readonly MutantResult[]): string[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  return results
    .filter(({ status }) => status === 'Survived')
    .map(({ location: { start, end }, replacement = '' }) => {
      const before = lines.slice(start.line - 1, end.line);
      const text = before.join('\n').slice(start.column - 1, start.line === end.line ? end.column - 1 : undefined);
      return `  ${path}:${start.line}:${start.column} ${inOneLine(text)} -> ${inOneLine(replacement)}`;
    });
}

function inOneLine(text: string): string {
  const joined = text.replace(/\s+/g, ' ');
  return joined.length > 80 ? `${joined.slice(0, 80)} …` : joined;
}
