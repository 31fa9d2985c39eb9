import { makeInThread } from '../../../shared/concurrency/in-thread.ts';
import type { Site, SiteRequest } from '../../documentation/site/make-site.ts';
import { onceMade } from '../once-made.ts';
import { type StaticContent, withBuffers } from '../static-content.ts';

/** Fails with `SERVICE_UNAVAILABLE` if the documentation cannot be made. */
export type Documentation = () => Promise<Site>;

/**
 * The documentation: its pages, search index and other assets. Made in a thread at the first call, once; there is no build step. After a
 * failure the next attempt is at least five seconds later. `now`: milliseconds of a monotonic clock.
 */
export function createDocumentation({ links, models, document }: SiteRequest, now?: () => number): Documentation {
  const { baseUrl, authUrl, consoleUrl, topupUrl, docsUrl } = links;
  const request: SiteRequest = {
    links: { baseUrl, authUrl, consoleUrl, topupUrl, docsUrl }, // no other settings
    models,
    document: JSON.parse(JSON.stringify(document)),
  };
  const url = new URL('./main.ts', import.meta.url);
  const make = async () => {
    const { pages, missing, assets } = await makeInThread<Site>({ url, request });
    return { pages: allWithBuffers(pages), missing: withBuffers(missing), assets: allWithBuffers(assets) };
  };
  return onceMade({ what: 'The documentation', make, now });
}

function allWithBuffers(contents: ReadonlyMap<string, StaticContent>): Map<string, StaticContent> {
  return new Map([...contents].map(([name, content]) => [name, withBuffers(content)] as const));
}
