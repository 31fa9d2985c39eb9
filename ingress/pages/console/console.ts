import { createHash } from 'node:crypto';
import { makeInThread } from '../../../shared/concurrency/in-thread.ts';
import type { IssuerKeys } from '../../authentication/issuer-keys.ts';
import type { ConsoleSettings } from '../../console/session/settings.ts';
import type { AppContext } from '../../request-state.ts';
import { contentSecurityPolicy } from '../content-security-policy.ts';
import { onceMade } from '../once-made.ts';
import { sendAsset, sendPage } from '../serve-content.ts';
import type { SharedAssets } from '../shared-assets.ts';
import { withBuffers } from '../static-content.ts';
import type { ConsoleFiles } from './console-files.ts';

/** Sends the page, or an asset by its name; false if there is no such asset. */
export type Console = {
  page(ctx: AppContext): Promise<void>;
  asset(ctx: AppContext, name: string): Promise<boolean>;
};

type Deps = { shared: SharedAssets } & Pick<IssuerKeys, 'endpointOrigins'>;

/**
 * The console: one page and its assets. Made at the first request; there is no build step. Its script may call the API, the issuer, and the
 * issuer's endpoints as they are known at the request. Both fail with `SERVICE_UNAVAILABLE` if it cannot be made; the next try is
 * made five seconds later at the earliest.
 */
export function createConsole(known: ConsoleSettings, { shared, endpointOrigins }: Deps): Console {
  const { baseUrl, consoleUrl, docsUrl, issuer, consoleClientId, consoleScopes, consoleResource } = known;
  const addresses = { baseUrl, consoleUrl, docsUrl, issuer };
  const settings: ConsoleSettings = { ...addresses, consoleClientId, consoleScopes, consoleResource }; // no other settings
  const policyNow = () =>
    contentSecurityPolicy([new URL(issuer).origin, new URL(baseUrl).origin, ...endpointOrigins()]);
  const url = new URL('./main.ts', import.meta.url);
  const make = async () => {
    const { page, assets } = await makeInThread<ConsoleFiles>({ url, request: settings });
    const buffered = new Map([...assets].map(([name, content]) => [name, withBuffers(content)] as const));
    const content = withBuffers(page);
    const show = (ctx: AppContext) => {
      const policy = policyNow();
      // A browser that gets a 304 keeps the policy that it has, so another policy is another page.
      const hash = createHash('sha256').update(page.hash).update(policy).digest('base64url').slice(0, 16);
      sendPage(ctx, { ...content, hash }, policy);
    };
    return { show, buffered };
  };
  const made = onceMade({ what: 'The console', make });
  return {
    async page(ctx) {
      const { show, buffered } = await made();
      await shared.share(buffered);
      show(ctx);
    },
    async asset(ctx, name) {
      const { buffered } = await made();
      return sendAsset(ctx, name, { own: buffered, shared });
    },
  };
}
