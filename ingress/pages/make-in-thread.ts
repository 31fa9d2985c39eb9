import { Worker } from 'node:worker_threads';
import { ApiError } from '../../shared/errors.ts';
import { makePauseMs } from './once-made.ts';
import type { StaticContent } from './static-content.ts';

const makeMsMax = 60_000;

/** `request` is what the module at `url` gets as its `workerData`; `what` names for clients what it makes. */
type Making = { url: URL; request: object; what: string };

/**
 * The one message of a thread, which ends with it: for what takes long to make, needs much code, and is made once. Fails with
 * `SERVICE_UNAVAILABLE`.
 */
export async function makeInThread<Made>({ url, request, what }: Making): Promise<Made> {
  try {
    const thread = new Worker(url, { workerData: request });
    thread.unref(); // it does not keep the process alive
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
    thread.once('exit', (code) => reject(new Error(`the thread ended with ${code} and has made nothing`)));
  });
}

/** Between threads a buffer arrives as the array that it is a view of. */
export function withBuffers({ bytes, br, gzip, ...rest }: StaticContent): StaticContent {
  return {
    ...rest,
    bytes: Buffer.from(bytes),
    ...(br && { br: Buffer.from(br) }),
    ...(gzip && { gzip: Buffer.from(gzip) }),
  };
}
