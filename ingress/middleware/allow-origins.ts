import cors from '@koa/cors';
import { endpoints } from '../../shared/endpoints/routes.ts';
import type { AppContext, Stage } from '../request-state.ts';

/**
 * Routes that a page of any origin may call: inference and guest keys, because they run in end users' browsers, and the description of the
 * API.
 */
const openPaths = /^\/(v1\/(models|models\/.+|keys\/guest)|openapi\.json|plan-file\.schema\.json)$/;
const inferencePaths = new Set<string>(endpoints.map(({ path }) => path));

const quota = ['limit', 'used', 'remaining', 'reset', 'overage'].map((name) => `x-svc-quota-${name}`);
const rateLimits = ['limit', 'remaining', 'reset'].flatMap((name) => [
  `x-ratelimit-${name}-requests`,
  `x-ratelimit-${name}-tokens`,
]);
const ofErrors = ['retry-after', 'retry-after-ms', 'x-should-retry', 'link'];
const exposedNames = [
  'x-request-id',
  'request-id',
  'x-client-request-id',
  ...ofErrors,
  'x-svc-queue-ms',
  'x-svc-dropped',
  'x-svc-estimated',
  'idempotent-replayed',
  'idempotency-kept',
  'x-svc-original-request-id',
  ...quota,
  ...rateLimits,
].join(',');

/**
 * Sets CORS headers (contract.md#a4-browsers). All other routes are for the console, which has one origin. Nothing uses cookies, so
 * credentials are not allowed.
 */
export function allowOrigins({ consoleUrl }: { consoleUrl: string }): Stage {
  const consoleOrigin = new URL(consoleUrl).origin;
  const originFor = (ctx: Pick<AppContext, 'path' | 'get'>) =>
    inferencePaths.has(ctx.path) || openPaths.test(ctx.path)
      ? '*'
      : ctx.get('origin') === consoleOrigin
        ? consoleOrigin
        : '';
  const answerPreflight = cors({
    origin: originFor,
    allowMethods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    maxAge: 600,
    // The headers are on the response already, and must not be added to the error.
    keepHeadersOnError: false,
  }) as Stage; // the library has the types of any Koa application

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
