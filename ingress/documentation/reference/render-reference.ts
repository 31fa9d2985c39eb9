import { makeInThread, withBuffers } from '../../pages/make-in-thread.ts';
import type { StaticContent } from '../../pages/static-content.ts';
import type { Frame } from '../page-layout.ts';

/** What the thread gets: the OpenAPI document, and where its page stands; pages are at `home`, a slash and their name. */
export type ReferenceRequest = { document: object; frame: Frame; home: string; index: number; canonical: string };

/** The page of the OpenAPI document; fails with `SERVICE_UNAVAILABLE`. */
export type RenderReference = (page: Omit<ReferenceRequest, 'document'>) => Promise<StaticContent>;

/** `document` is anything that can be written as JSON. */
export function createRenderReference({ document }: { document: object }): RenderReference {
  return async function renderReference(page) {
    const request: ReferenceRequest = { ...page, document: JSON.parse(JSON.stringify(document)) };
    const url = new URL('./main.ts', import.meta.url);
    return withBuffers(await makeInThread<StaticContent>({ url, request, what: 'The reference' }));
  };
}
