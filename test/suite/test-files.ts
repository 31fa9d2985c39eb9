import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { importsOf, projectFiles, reachableFrom } from '../support/source-files.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** `fast`: `npm test`. `slow`: what `.ci/run` runs after it. `nightly`: what only `npm run nightly` runs. Each has its ending. */
type Suite = 'fast' | 'slow' | 'nightly';

const endings: Record<Suite, string> = { fast: '.test.ts', slow: '.slow.ts', nightly: '.nightly.ts' };

/** The files of a suite, by their path from the project folder. */
export function testFiles(suite: Suite): string[] {
  return projectFiles().filter((path) => path.startsWith('test/') && path.endsWith(endings[suite]));
}

/** Files of all suites with random or repeated cases whose number can be chosen. `full`: only those with more cases than `npm test` has. */
export function sizedFiles(which: 'full' | 'any'): string[] {
  const files = projectFiles().filter((path) => path.startsWith('test/') && path.endsWith('.ts'));
  const sources = files.map((path) => ({ path, text: '', imports: importsOf(path, textOf(path)) }));
  const call = which === 'any' ? /\bsized\(/ : /\bsized\(\s*[^(),]+,|\bsomeOf\(/;
  const sized = files.filter((path) => path !== 'test/support/size.ts' && call.test(textOf(path)));
  return (['fast', 'slow', 'nightly'] as const).flatMap(testFiles).filter((path) => {
    const reached = reachableFrom(sources, [path]);
    return sized.some((one) => reached.has(one));
  });
}

/**
 * Files that share a process, and how many of their tests run at the same time. Without a number, the files run one after another. Their
 * stacks have one Redis, or a cluster. `isAlone`: the file concerns its whole process, such as its timers, and AVA runs it as usual.
 */
export type Share = { files: string[]; testsAtOnce?: number; isAlone?: boolean; redis?: 'cluster' };

/** `sequences` take longest, and mostly wait. */
export type Shares = { sequences: Share[]; others: Share[] };

/**
 * Distributes files over processes. Tests of the console share a stack and a browser. Files with their own stacks run one after another,
 * and files that concern their whole process are alone in one.
 */
export function shareProcesses(files: readonly string[]): Shares {
  const { console = [], flows = [], timed = [], small = [], stacks = [], alone = [] } = Object.groupBy(files, kindOf);
  const few: Share[] = [console, flows, timed].map((files) => ({ files, testsAtOnce: 3 }));
  const many: Share[] = evenShares(small, smallSharesMax).map((files) => ({ files, testsAtOnce: 4 }));
  const own: Share[] = alone.map((file) => ({ files: [file], isAlone: true }));
  return {
    sequences: evenShares(stacks, sequencesMax).map((files) => ({ files })),
    others: weave(
      [...few, ...many].filter((share) => share.files.length > 0),
      own,
    ),
  };
}

/** The same on a Redis Cluster. Its nodes take long to start, so few processes with several files each are enough. */
export function clusterShares(files: readonly string[]): Share[] {
  const { flows = [], alone = [], stacks = [] } = Object.groupBy(files, kindOf);
  const sequences = Math.min(clusterSequencesMax, Math.ceil(stacks.length / clusterFilesMin));
  return [
    ...evenShares(stacks, sequences).map((files) => ({ files, redis })),
    ...[flows, ...alone.map((file) => [file])].map((files) => ({ files, testsAtOnce: 3, redis })),
  ].filter(({ files }) => files.length > 0);
}

/** Spreads `some` evenly among `others`. */
export function weave<T>(some: readonly T[], others: readonly T[]): T[] {
  const step = others.length / some.length;
  const after = (index: number) => others.slice(Math.round(index * step), Math.round((index + 1) * step));
  return some.length === 0 ? [...others] : some.flatMap((one, index) => [one, ...after(index)]);
}

const redis = 'cluster' as const;
/** A few, because each costs a process, and enough that none still runs for long after all others have ended. */
const smallSharesMax = 5;
const sequencesMax = 6;
const clusterSequencesMax = 3;
const clusterFilesMin = 4;

function evenShares(files: readonly string[], sharesMax: number): string[][] {
  return Array.from({ length: Math.min(sharesMax, files.length) }, (_, share) =>
    files.filter((_, index) => index % sharesMax === share),
  );
}

/** Starts its own stacks, unless it shares one. */
const hasStack = /^test\/(attacks|engine|faults|flows|meter)\//;
/** Kills processes that write in the folder of the tests. */
const hasOwnProcess = /-file-store\./;
const sharesStack = /\bopenSharedStack\b/;
/** Waits for time-outs of the service, which pass while other tests compute. */
const isTimed = /\bconnectForRequests\b|\brequest_ms: \d|\bwindowMs\b/;
/** Computes all the time, in a thread. */
const isSearch = /^test\/fuzz\/.*\.nightly\.ts$/;
const concernsProcess = /\bmock\.timers\b|\bfindChromium\b|\bopenMongoTests\b/;

/** Needs a server of MongoDB's protocol. */
export function usesMongo(path: string): boolean {
  return /\b(startMongo|openMongoTests)\b/.test(textOf(path));
}

function kindOf(path: string): 'console' | 'flows' | 'timed' | 'small' | 'stacks' | 'alone' {
  const text = textOf(path);
  if (path.startsWith('test/console/')) return 'console';
  if (sharesStack.test(text)) return 'flows';
  if (concernsProcess.test(text)) return 'alone';
  if (hasStack.test(path)) return 'stacks';
  if (hasOwnProcess.test(path) || isSearch.test(path)) return 'alone';
  return isTimed.test(text) ? 'timed' : 'small';
}

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}
