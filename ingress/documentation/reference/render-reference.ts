import { Worker } from 'node:worker_threads';
import { ApiError } from '../../../shared/errors.ts';
import type { StaticContent } from '../../pages/static-content.ts';
import type { Frame } from '../page-layout.ts';

/** What the thread gets: the OpenAPI document, and where its page stands; pages are at `home`, a slash and their name. */
export type ReferenceRequest = { document: object; frame: Frame; home: string; index: number; canonical: string };

/** The page of the OpenAPI document; fails with `SERVICE_UNAVAILABLE`. */
export type RenderReference = (page: Omit<ReferenceRequest, 'document'>) => Promise<StaticContent>;

const renderMs = 60_000;

/** A try costs a thread and about a second of a processor: after one that failed there is none for so long. */
export const renderPauseMs = 5_000;

/**
 * Made by a thread that ends with it: what renders OpenAPI is large, takes about a second, and is not needed again. `document`
 * is anything that can be written as JSON.
 */
export function createRenderReference({ document }: { document: object }): RenderReference {
  return async function renderReference(page) {
    const request: ReferenceRequest = { ...page, document: JSON.parse(JSON.stringify(document)) };
    const thread = new Worker(new URL('./main.ts', import.meta.url), { workerData: request });
    thread.unref(); // a process that ends waits for no page
    const late = setTimeout(() => void thread.terminate(), renderMs);
    try {
      return await firstMessage(thread);
    } catch (error) {
      const message = 'The reference is not available right now. Retry.';
      throw new ApiError('SERVICE_UNAVAILABLE', message, { cause: error, retryAfterMs: renderPauseMs });
    } finally {
      clearTimeout(late);
    }
  };
}

function firstMessage(thread: Worker): Promise<StaticContent> {
  return new Promise((resolve, reject) => {
    thread.once('message', (content: StaticContent) => resolve(withBuffers(content)));
    thread.once('error', reject);
    thread.once('exit', (code) => reject(new Error(`the thread that renders the reference ended with ${code}`)));
  });
}

/** Between threads a buffer arrives as the array that it is a view of. */
function withBuffers({ bytes, br, gzip, ...rest }: StaticContent): StaticContent {
  return {
    ...rest,
    bytes: Buffer.from(bytes),
    ...(br && { br: Buffer.from(br) }),
    ...(gzip && { gzip: Buffer.from(gzip) }),
  };
}
