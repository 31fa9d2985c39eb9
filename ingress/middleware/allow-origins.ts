import cors from '@koa/cors';
import { exposedHeaders } from '../api/headers.ts';
import type { Route } from '../api/route.ts';
import type { AppContext, Stage } from '../request-state.ts';

/**
 * Sets CORS headers (contract.md#a4-browsers). Routes that no page of any origin may call are for the console, which has one origin. Nothing
 * uses cookies, so credentials are not allowed.
 */
export function allowOrigins(routes: readonly Route[], { consoleUrl }: { consoleUrl: string }): Stage {
  const consoleOrigin = new URL(consoleUrl).origin;
  const open = routes.filter(({ anyOrigin }) => anyOrigin).map(({ path }) => path);
  const fixed = new Set(open);
  const patterns = open
    .filter((path) => path.includes('*'))
    .map((path) => new RegExp(`^${path.replace(/\*\w+/, '.+')}$`));
  const isOpen = (path: string) => fixed.has(path) || patterns.some((pattern) => pattern.test(path));
  const originFor = (ctx: Pick<AppContext, 'path' | 'get'>) =>
    isOpen(ctx.path) ? '*' : ctx.get('origin') === consoleOrigin ? consoleOrigin : '';
  const answerPreflight = cors({
    origin: originFor,
    allowMethods: ['HEAD', ...new Set(routes.map(({ method }) => method))],
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
      ctx.res.setHeader('access-control-expose-headers', exposedHeaders);
    }
    return next();
  };
}
