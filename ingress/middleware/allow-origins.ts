import cors from '@koa/cors';
import type { AppContext, Stage } from '../request-state.ts';

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
const ofErrors = ['retry-after', 'retry-after-ms', 'x-should-retry', 'link'];
const exposedNames = [
  'x-request-id',
  'x-client-request-id',
  ...ofErrors,
  'x-svc-queue-ms',
  ...quota,
  ...rateLimits,
].join(',');

/** Everything else is for the console, which is at one origin. Nothing here goes by cookies, so none are asked for. */
export function allowOrigins({ consoleUrl }: { consoleUrl: string }): Stage {
  const consoleOrigin = new URL(consoleUrl).origin;
  const originFor = (ctx: Pick<AppContext, 'path' | 'get'>) =>
    openPaths.test(ctx.path) ? '*' : ctx.get('origin') === consoleOrigin ? consoleOrigin : '';
  const answerPreflight = cors({
    origin: originFor,
    allowMethods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    maxAge: 600,
    // Headers stand on the response, and an error's own are no place for them.
    keepHeadersOnError: false,
  }) as Stage; // the library's types are those of any Koa application

  return function allowOrigins(ctx, next) {
    if (ctx.method === 'OPTIONS') return answerPreflight(ctx, next);
    const origin = originFor(ctx);
    ctx.res.setHeader('vary', 'Origin');
    if (origin !== '') {
      ctx.res.setHeader('access-control-allow-origin', origin);
      ctx.res.setHeader('access-control-expose-headers', exposedNames);
    }
    return next();
  };
}
