import { Worker } from 'node:worker_threads';

const makeMsMax = 60_000;

/** What the thread posts: Node posts messages of its own from threads of a process that it watches. */
export type Output<Result> = { made: Result };

/** `request` is the `workerData` of the module at `url`. */
type ThreadOptions = { url: URL; request: unknown; signal?: AbortSignal };

/**
 * Returns what a thread makes: for what takes so long that it would hold up the requests of the process. Throws if the thread fails, takes
 * more than a minute, or the signal is aborted.
 */
export async function makeInThread<Result>({ url, request, signal }: ThreadOptions): Promise<Result> {
  signal?.throwIfAborted();
  const thread = new Worker(url, { workerData: request });
  thread.unref();
  const stop = () => void thread.terminate();
  const late = setTimeout(stop, makeMsMax);
  signal?.addEventListener('abort', stop);
  try {
    return await resultOf<Result>(thread);
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', stop);
  }
}

function resultOf<Result>(thread: Worker): Promise<Result> {
  return new Promise((resolve, reject) => {
    thread.on('message', (message: Partial<Output<Result>>) => message.made !== undefined && resolve(message.made));
    thread.once('error', reject);
    thread.once('exit', (code) => reject(new Error(`the thread exited with ${code} without a result`)));
  });
}
