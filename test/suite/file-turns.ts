import type { ExecutionContext } from 'ava';

type Run = () => unknown;
/** A test that AVA, which starts all tests at once, has started, and that waits for its turn. */
type Waiting = {
  begun: PromiseWithResolvers<Run>;
  ended: PromiseWithResolvers<unknown>;
  finished: PromiseWithResolvers<void>;
};
type File = { before: Run[]; serial: Waiting[]; concurrent: Waiting[]; after: Run[] };

const files = new Map<string, File>();

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
  const turns = [...files.values()];
  files.clear();
  for (const { before, serial, concurrent, after } of turns) {
    const ready = Promise.all(before.map(async (run) => run()));
    await Promise.allSettled([ready]);
    for (const test of serial) await runOnce(ready, test);
    await Promise.all(concurrent.map((test) => runOnce(ready, test)));
    for (const run of after) await run();
  }
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
