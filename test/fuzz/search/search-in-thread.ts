import { Worker } from 'node:worker_threads';
import { inputBytesMax } from './fuzz-target.ts';
import type { SearchFailure, SearchOptions, SearchReport } from './run-search.ts';

/** `targetsUrl` is a module that exports `targets`. `seedTexts` replace the kept seeds. */
export type SearchTask = SearchOptions & {
  targetsUrl: string;
  name: string;
  seedTexts?: readonly string[];
  /** Two numbers, how many inputs were tried and the length of the latest, and that input. */
  shared: SharedArrayBuffer;
};

type Options = Omit<SearchTask, 'shared'> & { stuckMs?: number };

const headBytes = 8;
/** Far longer than any input takes on a busy machine. */
const usualStuckMs = 60_000;
const lookEveryMs = 250;

/**
 * Searches in a thread, so that an input on which the code never ends, or which ends the thread, is reported as a failure. The input is
 * known in either case, because the thread shares it before it is tried.
 */
export async function searchInThread({ stuckMs = usualStuckMs, ...options }: Options): Promise<SearchReport> {
  const shared = new SharedArrayBuffer(headBytes + inputBytesMax);
  const thread = new Worker(new URL('search-thread.ts', import.meta.url), { workerData: { ...options, shared } });
  const report = Promise.withResolvers<SearchReport>();
  const fail = (message: string) => report.resolve({ ...sharedInput(shared, message), outcomes: {} });
  thread.once('message', report.resolve);
  thread.once('error', (error) => {
    // An error of a thread is not an instance of this thread's `Error`.
    const { message, stack = message } = error as Partial<Error>;
    if (triedIn(shared) === 0) report.reject(new Error(message, { cause: error }));
    else fail(`an uncaught error: ${stack}`);
  });
  thread.once('exit', (code) => report.reject(new Error(`the thread of the search ended with ${code}`)));
  const looking = watchProgress(shared, stuckMs, () => fail(`did not end within ${stuckMs} ms`));
  try {
    return await report.promise;
  } finally {
    clearInterval(looking);
    await thread.terminate();
  }
}

function watchProgress(shared: SharedArrayBuffer, stuckMs: number, onStuck: () => void): NodeJS.Timeout {
  let seen = { tried: 0, at: performance.now() };
  return setInterval(() => {
    const tried = triedIn(shared);
    if (tried !== seen.tried || tried === 0) seen = { tried, at: performance.now() };
    else if (performance.now() - seen.at > stuckMs) onStuck();
  }, lookEveryMs);
}

/** Called before an input is tried. */
export function shareInput(shared: SharedArrayBuffer, input: Uint8Array): void {
  const head = new Int32Array(shared, 0, 2);
  new Uint8Array(shared, headBytes).set(input.subarray(0, inputBytesMax));
  head[1] = input.length;
  Atomics.add(head, 0, 1);
}

function triedIn(shared: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(shared, 0, 2), 0);
}

function sharedInput(shared: SharedArrayBuffer, message: string): { tried: number; failure: SearchFailure } {
  const length = new Int32Array(shared, 0, 2)[1] ?? 0;
  const input = Uint8Array.from(new Uint8Array(shared, headBytes, length));
  return { tried: triedIn(shared), failure: { message, input, origin: 'the last input that was tried' } };
}
