import { appendFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';

/** The environment variable with the file that each process adds the times of its files to, as JSON lines. */
export const timesVariable = 'TEST_TIMES';

type Run = () => unknown;
/** A test that AVA, which starts all tests at once, has started, and that waits for its turn. */
type Waiting = {
  begun: PromiseWithResolvers<Run>;
  ended: PromiseWithResolvers<unknown>;
  finished: PromiseWithResolvers<void>;
};
type File = { before: Run[]; serial: Waiting[]; concurrent: Waiting[]; after: Run[] };

const files = new Map<string, File>();
const declarations: Run[] = [];
const timesMs = new Map<string, number>();
const waiting: (() => void)[] = [];
let free = 1;

/** AVA starts shortly after the first test is declared, so nothing is declared until the last file is loaded. */
export function declareLater(declare: Run): void {
  declarations.push(declare);
}

export function declareAll(): void {
  for (const declare of declarations.splice(0)) declare();
}

/** Must be called before the first test starts. More tests than this would only wait for each other's processor time. */
export function runAtOnce(tests: number): void {
  free = tests;
}

/** Runs a test of this file when there is room for one more in this process. */
export async function inTurn<T>(path: string, work: () => T): Promise<Awaited<T>> {
  if (free > 0) free--;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await timed(path, work);
  } finally {
    // Tests that compute would otherwise follow each other without end, while others wait for their sockets and timers.
    await nextTurn();
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  }
}

async function timed<T>(path: string, work: () => T): Promise<Awaited<T>> {
  const begunMs = performance.now();
  try {
    return await work();
  } finally {
    timesMs.set(path, (timesMs.get(path) ?? 0) + performance.now() - begunMs);
  }
}

/** Adds how long the tests of each file ran to the file for that, if there is one. */
export function writeTimes(): void {
  const { [timesVariable]: file } = process.env;
  const lines = [...timesMs].map(([path, ms]) => `${JSON.stringify({ path, ms: Math.round(ms) })}\n`);
  if (file !== undefined) appendFileSync(file, lines.join(''));
}

function fileAt(path: string): File {
  const file = files.get(path) ?? { before: [], serial: [], concurrent: [], after: [] };
  files.set(path, file);
  return file;
}

/** Calls `run` before the tests of this file. If it fails, they fail. */
export function beforeTests(path: string, run: Run): void {
  fileAt(path).before.push(run);
}

/** Calls `run` after the tests of this file, even if one failed. Returns a hook for the very end, which fails if `run` failed. */
export function afterTests(path: string, run: Run): () => Promise<unknown> {
  const ended = Promise.withResolvers<unknown>();
  ended.promise.catch(() => {}); // a failure is reported by the hook
  fileAt(path).after.push(() => settle(ended, run));
  return () => ended.promise;
}

type Test = { isSerial: boolean; run: (t: ExecutionContext) => unknown };

/**
 * Returns the function that AVA runs with all others. In the file's turn its serial tests run one after another, then all others at the
 * same time.
 */
export function inFileTurn(path: string, { isSerial, run }: Test): (t: ExecutionContext) => Promise<unknown> {
  const test: Waiting = {
    begun: Promise.withResolvers(),
    ended: Promise.withResolvers(),
    finished: Promise.withResolvers(),
  };
  const { serial, concurrent } = fileAt(path);
  (isSerial ? serial : concurrent).push(test);
  return (t) => {
    t.teardown(() => test.finished.resolve()); // runs after the other teardowns, also for a test that timed out
    test.begun.resolve(() => run(t));
    return test.ended.promise;
  };
}

/** Runs the loaded files one after another. */
export async function runFilesInTurn(): Promise<void> {
  const turns = [...files];
  files.clear();
  for (const [path, file] of turns) await timed(path, () => runFile(file));
}

async function runFile({ before, serial, concurrent, after }: File): Promise<void> {
  const ready = Promise.all(before.map(async (run) => run()));
  await Promise.allSettled([ready]);
  for (const test of serial) await runOnce(ready, test);
  await Promise.all(concurrent.map((test) => runOnce(ready, test)));
  for (const run of after) await run();
}

/** Resolves when AVA has finished this test. */
async function runOnce(ready: Promise<unknown>, { begun, ended, finished }: Waiting): Promise<void> {
  const run = await begun.promise;
  void settle(ended, () => ready.then(run));
  await finished.promise;
}

async function settle(ended: PromiseWithResolvers<unknown>, run: Run): Promise<void> {
  try {
    ended.resolve(await run());
  } catch (error) {
    ended.reject(error);
  }
}
