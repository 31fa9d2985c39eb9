import { Worker } from 'node:worker_threads';
import { ApiError } from '../../shared/errors.ts';
import { makePauseMs } from './once-made.ts';
import type { StaticContent } from './static-content.ts';

const makeMsMax = 60_000;

/** What the thread posts: Node posts messages of its own from threads of a process that it watches. */
export type Made<Result> = { made: Result };

/** `request` is the `workerData` of the module at `url`; `what` names the result in the error message for clients. */
type Making = { url: URL; request: object; what: string };

/**
 * Returns what a thread makes: for results that are made once and need much time and code. Fails with `SERVICE_UNAVAILABLE`.
 */
export async function makeInThread<Result>({ url, request, what }: Making): Promise<Result> {
  try {
    const thread = new Worker(url, { workerData: request });
    thread.unref();
    const late = setTimeout(() => void thread.terminate(), makeMsMax);
    return await resultOf<Result>(thread).finally(() => clearTimeout(late));
  } catch (error) {
    const message = `${what} is not available right now. Retry.`;
    throw new ApiError('SERVICE_UNAVAILABLE', message, { cause: error, retryAfterMs: makePauseMs });
  }
}

function resultOf<Result>(thread: Worker): Promise<Result> {
  return new Promise((resolve, reject) => {
    thread.on('message', (message: Partial<Made<Result>>) => message.made !== undefined && resolve(message.made));
    thread.once('error', reject);
    thread.once('exit', (code) => reject(new Error(`the thread exited with ${code} without a result`)));
  });
}

/** Buffers arrive from another thread as plain `Uint8Array`s. */
export function withBuffers({ bytes, br, gzip, ...rest }: StaticContent): StaticContent {
  return {
    ...rest,
    bytes: Buffer.from(bytes),
    ...(br && { br: Buffer.from(br) }),
    ...(gzip && { gzip: Buffer.from(gzip) }),
  };
}
