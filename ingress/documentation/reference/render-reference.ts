import { makeInThread, withBuffers } from '../../pages/make-in-thread.ts';
import type { StaticContent } from '../../pages/static-content.ts';
import type { ReferencePage, RenderReference } from '../page-layout.ts';

/** What the thread is given. */
export type ReferenceRequest = ReferencePage & { document: object };

/** `document` is anything that can be written as JSON. */
export function createRenderReference({ document }: { document: object }): RenderReference {
  return async function renderReference(page) {
    const request: ReferenceRequest = { ...page, document: JSON.parse(JSON.stringify(document)) };
    const url = new URL('./main.ts', import.meta.url);
    return withBuffers(await makeInThread<StaticContent>({ url, request, what: 'The reference' }));
  };
}
