import { Worker } from 'node:worker_threads';
import { ApiError } from '../../shared/errors.ts';
import { makePauseMs } from './once-made.ts';
import type { StaticContent } from './static-content.ts';

const makeMsMax = 60_000;

/** `request` is the `workerData` of the module at `url`; `what` names the result in the error message for clients. */
type Making = { url: URL; request: object; what: string };

/**
 * Returns the only message of a thread: for results that are made once and need much time and code. Fails with `SERVICE_UNAVAILABLE`.
 */
export async function makeInThread<Made>({ url, request, what }: Making): Promise<Made> {
  try {
    const thread = new Worker(url, { workerData: request });
    thread.unref();
    const late = setTimeout(() => void thread.terminate(), makeMsMax);
    return await firstMessage<Made>(thread).finally(() => clearTimeout(late));
  } catch (error) {
    const message = `${what} is not available right now. Retry.`;
    throw new ApiError('SERVICE_UNAVAILABLE', message, { cause: error, retryAfterMs: makePauseMs });
  }
}

function firstMessage<Made>(thread: Worker): Promise<Made> {
  return new Promise((resolve, reject) => {
    thread.once('message', resolve);
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
