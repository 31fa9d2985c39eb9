import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { importsOf, projectFiles, reachableFrom } from '../support/source-files.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * `fast`: what `npm test` runs. `rest`: what `npm run test:all` runs besides, files that end in `.slow.ts` and all whose size
 * can be chosen. `sized`: the latter alone.
 */
export type Selection = 'fast' | 'rest' | 'sized';

/** Files with tests, by their path from the top. */
export function testFiles(selection: Selection): string[] {
  const files = projectFiles().filter((path) => path.startsWith('test/') && path.endsWith('.ts'));
  const fast = files.filter((path) => path.endsWith('.test.ts'));
  if (selection === 'fast') return fast;
  const sources = files.map((path) => ({ path, text: '', imports: importsOf(path, textOf(path)) }));
  const slow = files.filter((path) => path.endsWith('.slow.ts'));
  const isSized = (path: string) => reachableFrom(sources, [path]).has('test/support/size.ts');
  return selection === 'sized' ? [...fast, ...slow].filter(isSized) : [...fast.filter(isSized), ...slow];
}

/** What such a file uses is its process's own: stacks, killed processes, replaced timers, measured memory. */
const hasOwnProcess = /^test\/(faults|flows)\/|-file-store\./;
const sharesStack = /\bopenSharedStack\b/;
/** Waits for time-outs of the service, which pass while other tests compute. */
const isTimed = /\bconnectForRequests\b|\brequest_ms: \d/;
const concernsProcess = /\bmock\.timers\b|\bfindChromium\b|\bopenMongoTests\b/;

/** Files that share a process, and how many of their tests run at the same time. */
export type Share = { files: string[]; testsAtOnce: number };

/**
 * A process costs as much as a dozen files that need no stack, so those share some; tests of the console share a stack and a
 * browser. `alone`: the others.
 */
export function shareProcesses(files: readonly string[]): { shares: Share[]; alone: string[] } {
  const { console = [], flows = [], timed = [], small = [], alone = [] } = Object.groupBy(files, kindOf);
  const smallShares = Array.from({ length: Math.min(smallSharesMax, small.length) }, (_, share) => ({
    files: small.filter((_, index) => index % smallSharesMax === share),
    testsAtOnce: 4,
  }));
  const few = [console, flows, timed].map((files) => ({ files, testsAtOnce: 3 }));
  const shares = [...few, ...smallShares];
  return { shares: shares.filter((share) => share.files.length > 0), alone };
}

function kindOf(path: string): 'console' | 'flows' | 'timed' | 'small' | 'alone' {
  const text = textOf(path);
  if (path.startsWith('test/console/')) return 'console';
  if (sharesStack.test(text)) return 'flows';
  if (hasOwnProcess.test(path) || concernsProcess.test(text)) return 'alone';
  return isTimed.test(text) ? 'timed' : 'small';
}

/** Even shares, small enough that none is still running for long when all others have ended. */
const smallSharesMax = 7;

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}
