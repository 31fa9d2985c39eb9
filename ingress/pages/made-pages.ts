import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { makeInThread } from '../../shared/concurrency/in-thread.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { IssuerKeys } from '../authentication/issuer-keys.ts';
import type { ConsoleSettings } from '../console/session/browser.ts';
import { type ExampleModels, exampleModels } from '../documentation/reference/request-example.ts';
import type { AppContext } from '../request-state.ts';
import type { ConsoleFiles } from './console-files.ts';
import type { Site, SiteRequest } from './documentation-site.ts';
import { contentSecurityPolicy, sendAsset, sendPage } from './serve-content.ts';
import type { SharedAssets } from './shared-assets.ts';
import { type StaticContent, withBuffers } from './static-content.ts';

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
  const { baseUrl, consoleUrl, docsUrl, issuer, consoleClientId, consoleScopes, consoleResource, product } = known;
  const addresses = { baseUrl, consoleUrl, docsUrl, issuer };
  const settings: ConsoleSettings = { ...addresses, product, consoleClientId, consoleScopes, consoleResource }; // no other settings
  const policyNow = () =>
    contentSecurityPolicy({
      connect: [new URL(issuer).origin, new URL(baseUrl).origin, ...endpointOrigins()],
      product,
    });
  const make = async () => {
    const { page, assets } = await makeFor<ConsoleFiles>({ settings });
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

/** Fails with `SERVICE_UNAVAILABLE` if the documentation cannot be made. */
export type Documentation = () => Promise<Site>;

/**
 * The documentation: its pages, search index and other assets. Made in a thread at the first call, once; there is no build step. After a
 * failure the next attempt is at least five seconds later. `now`: milliseconds of a monotonic clock.
 */
export function createDocumentation(
  { links, product, models, document }: SiteRequest,
  now?: () => number,
): Documentation {
  const { baseUrl, authUrl, consoleUrl, topupUrl, docsUrl } = links;
  const site: SiteRequest = {
    links: { baseUrl, authUrl, consoleUrl, topupUrl, docsUrl }, // no other settings
    product,
    models,
    document: JSON.parse(JSON.stringify(document)),
  };
  const make = async () => {
    const { pages, texts, missing, assets, ...others } = await makeFor<Site>({ site });
    return {
      pages: allWithBuffers(pages),
      texts: allWithBuffers(texts),
      missing: withBuffers(missing),
      assets: allWithBuffers(assets),
      ...others,
    };
  };
  return onceMade({ what: 'The documentation', make, now });
}

function allWithBuffers(contents: ReadonlyMap<string, StaticContent>): Map<string, StaticContent> {
  return new Map([...contents].map(([name, content]) => [name, withBuffers(content)] as const));
}

/**
 * Returns the documentation, with examples that work with the current plan file: it is made again when the models in examples have
 * changed. The names of assets do not depend on them, so pages that are open keep working.
 */
export function followExamples({
  currentPlanFile,
  create,
}: {
  currentPlanFile: () => PlanFile;
  create: (models: ExampleModels) => Documentation;
}): Documentation {
  let seen = currentPlanFile();
  let models = exampleModels(seen);
  let documentation = create(models);

  return function currentDocumentation() {
    const planFile = currentPlanFile();
    if (planFile === seen) return documentation();
    seen = planFile;
    const next = exampleModels(planFile);
    if (isDeepStrictEqual(next, models)) return documentation();
    models = next;
    documentation = create(models);
    return documentation();
  };
}

/** What the thread makes: the files of the console with these settings, or this documentation. */
export type PageRequest = { settings: ConsoleSettings } | { site: SiteRequest };

function makeFor<Result>(request: PageRequest): Promise<Result> {
  return makeInThread<Result>({ url: new URL('./main.ts', import.meta.url), request });
}

/** A try costs a thread and up to one second of CPU time. After a failure, the next try waits this long. */
const makePauseMs = 5_000;

/** `what` names the result in the error message for clients; `now` is in milliseconds of a monotonic clock. */
type Source<Result> = { what: string; make: () => Promise<Result>; now?: (() => number) | undefined };

/**
 * Makes a result at the first call, and returns the same result from then on. Fails with `SERVICE_UNAVAILABLE`; a failure is kept for
 * five seconds, so that repeated requests do not start a try each.
 */
function onceMade<Result>({ what, make, now = () => performance.now() }: Source<Result>): () => Promise<Result> {
  let made: Promise<Result> | undefined;
  let staleAt = Number.POSITIVE_INFINITY;
  return () => {
    if (made !== undefined && now() < staleAt) return made;
    staleAt = Number.POSITIVE_INFINITY;
    made = make().catch((cause) => {
      staleAt = now() + makePauseMs;
      const message = `${what} is not available right now. Retry.`;
      throw new ApiError('SERVICE_UNAVAILABLE', message, { cause, retryAfterMs: makePauseMs });
    });
    return made;
  };
}
