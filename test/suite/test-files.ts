import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { importsOf, projectFiles, reachableFrom } from '../support/source-files.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * `fast`: the files of `npm test`. `rest`: the other files of `npm run test:all`, which end in `.slow.ts` or run with small sizes in `npm
 * test`. `sized`: all files whose size can be chosen.
 */
export type Selection = 'fast' | 'rest' | 'sized';

/** Files with tests, by their path from the project folder. */
export function testFiles(selection: Selection): string[] {
  const files = projectFiles().filter((path) => path.startsWith('test/') && path.endsWith('.ts'));
  const fast = files.filter((path) => path.endsWith('.test.ts'));
  if (selection === 'fast') return fast;
  const sources = files.map((path) => ({ path, text: '', imports: importsOf(path, textOf(path)) }));
  const slow = files.filter((path) => path.endsWith('.slow.ts'));
  const named = selection === 'sized' ? /\bsized\(/ : hasFullSize;
  const sized = files.filter((path) => path !== 'test/support/size.ts' && named.test(textOf(path)));
  const isSized = (path: string) => {
    const reached = reachableFrom(sources, [path]);
    return sized.some((one) => reached.has(one));
  };
  return selection === 'sized' ? [...fast, ...slow].filter(isSized) : [...fast.filter(isSized), ...slow];
}

/** Has two sizes: the first is for `npm test`. */
const hasFullSize = /\bsized\(\s*[^(),]+,/;

/** Starts its own stacks, unless it shares one. */
const hasStack = /^test\/(faults|flows)\//;
/** Kills processes that write in the folder of the tests. */
const hasOwnProcess = /-file-store\./;
const sharesStack = /\bopenSharedStack\b/;
/** Waits for time-outs of the service, which pass while other tests compute. */
const isTimed = /\bconnectForRequests\b|\brequest_ms: \d|\bwindowMs\b/;
/** Computes all the time, in a thread. */
const isSearch = /^test\/fuzz\/.*\.slow\.ts$/;
const concernsProcess = /\bmock\.timers\b|\bfindChromium\b|\bopenMongoTests\b/;

/**
 * Files that share a process, and how many of their tests run at the same time. Without a number, the files run one after another. Their
 * stacks have one Redis, or a cluster.
 */
export type Share = { files: string[]; testsAtOnce?: number; redis?: 'cluster' };

/**
 * A process costs as much as a dozen files without a stack, so those share some. Tests of the console share a stack and a browser. Files
 * with their own stacks run one after another. `alone` has the other files.
 */
export function shareProcesses(files: readonly string[]): { shares: Share[]; sequences: Share[]; alone: string[] } {
  const { console = [], flows = [], timed = [], small = [], stacks = [], alone = [] } = Object.groupBy(files, kindOf);
  const few = [console, flows, timed].map((files) => ({ files, testsAtOnce: 3 }));
  const shares = [...few, ...evenShares(small, smallSharesMax).map((files) => ({ files, testsAtOnce: 4 }))];
  return {
    shares: shares.filter((share) => share.files.length > 0),
    sequences: evenShares(stacks, sequencesMax).map((files) => ({ files })),
    alone,
  };
}

/** The same for flows on a Redis Cluster. They mostly wait for nodes to start, so few processes are enough. */
export function clusterShares(files: readonly string[]): Share[] {
  const { flows = [], alone = [], stacks = [] } = Object.groupBy(files, kindOf);
  return [
    ...evenShares(stacks, clusterSequencesMax).map((files) => ({ files, redis })),
    ...[flows, ...alone.map((file) => [file])].map((files) => ({ files, testsAtOnce: 3, redis })),
  ].filter(({ files }) => files.length > 0);
}

const redis = 'cluster' as const;
const clusterSequencesMax = 3;

function evenShares(files: readonly string[], sharesMax: number): string[][] {
  return Array.from({ length: Math.min(sharesMax, files.length) }, (_, share) =>
    files.filter((_, index) => index % sharesMax === share),
  );
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

/** A few, because each costs a process, and enough that none still runs for long after all others have ended. */
const smallSharesMax = 5;
const sequencesMax = 6;

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}
