import { makeInThread } from '../../../shared/in-thread.ts';
import type { ConsoleSettings } from '../../console/session/settings.ts';
import type { Stage } from '../../request-state.ts';
import { contentSecurityPolicy } from '../content-security-policy.ts';
import { onceMade } from '../once-made.ts';
import { serveAsset, servePage } from '../serve-content.ts';
import type { SharedAssets } from '../shared-assets.ts';
import { withBuffers } from '../static-content.ts';
import type { ConsoleFiles } from './console-files.ts';

/** The stages of its routes: the page and its assets. */
export type Console = { page: Stage; asset: Stage };

/**
 * The console: one page and its assets. Made at the first request; there is no build step. Its script may call the API and the issuer.
 * Both stages fail with `SERVICE_UNAVAILABLE` if it cannot be made; the next try is made five seconds later at the earliest.
 */
export function createConsole(known: ConsoleSettings, shared: SharedAssets): Console {
  const { baseUrl, audience, consoleUrl, docsUrl, issuer, consoleClientId } = known;
  const settings: ConsoleSettings = { baseUrl, audience, consoleUrl, docsUrl, issuer, consoleClientId }; // no other settings
  const policy = contentSecurityPolicy([new URL(issuer).origin, new URL(baseUrl).origin]);
  const url = new URL('./main.ts', import.meta.url);
  const make = async () => {
    const { page, assets } = await makeInThread<ConsoleFiles>({ url, request: settings });
    const buffered = new Map([...assets].map(([name, content]) => [name, withBuffers(content)] as const));
    const show = servePage(withBuffers(page), policy);
    return { show, share: () => shared.share(buffered), asset: serveAsset({ own: buffered, shared }) };
  };
  const stages = onceMade({ what: 'The console', make });
  return {
    async page(ctx, next) {
      const { show, share } = await stages();
      await share();
      await show(ctx, next);
    },
    async asset(ctx, next) {
      const { asset } = await stages();
      await asset(ctx, next);
    },
  };
}
