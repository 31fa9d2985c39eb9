import cors from '@koa/cors';
import type { Stage } from '../request-state.ts';

/**
 * What a page anywhere may call: inference, and the key of a guest, both of which run in end users' browsers; and what
 * the API is described by, for whoever reads such descriptions.
 */
const openPaths = /^\/(v1\/(chat\/completions|models|models\/.+|keys\/guest)|openapi\.json)$/;

const quota = ['limit', 'used', 'remaining', 'reset', 'overage'].map((name) => `x-svc-quota-${name}`);
const rateLimits = ['limit', 'remaining', 'reset'].flatMap((name) => [
  `x-ratelimit-${name}-requests`,
  `x-ratelimit-${name}-tokens`,
]);
const exposed = ['x-request-id', 'x-client-request-id', 'retry-after', 'retry-after-ms', 'x-should-retry', 'link'];

/** Everything else is for the console, which is at one origin. Nothing here goes by cookies, so none are asked for. */
export function allowOrigins({ consoleUrl }: { consoleUrl: string }): Stage {
  const consoleOrigin = new URL(consoleUrl).origin;
  return cors({
    origin: (ctx) => (openPaths.test(ctx.path) ? '*' : ctx.get('origin') === consoleOrigin ? consoleOrigin : ''),
    allowMethods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    exposeHeaders: [...exposed, ...quota, ...rateLimits],
    maxAge: 600,
    // Headers stand on the response, and an error's own are no place for them.
    keepHeadersOnError: false,
  }) as Stage; // the library's types are those of any Koa application
}
