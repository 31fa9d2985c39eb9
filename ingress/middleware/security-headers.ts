import cors from '@koa/cors';
import { exposedHeaders } from '../api/response-headers.ts';
import { methodsOf, type Route } from '../api/route.ts';
import { setHeaders } from '../listener/request-headers.ts';
import type { AppContext, Stage } from '../request-state.ts';

export type SecurityHeaders = Readonly<Record<string, string>>;

/** A year (RFC 6797 6.1.1). The operator decides on subdomains, and a preload list is hard to leave. */
const transportSecurity = 'max-age=31536000';

/** Returns the headers of every response of the public listener: its content type is final, and an `https:` service requires TLS. */
export function securityHeaders(baseUrl: string): SecurityHeaders {
  const isSecure = new URL(baseUrl).protocol === 'https:';
  return {
    'x-content-type-options': 'nosniff',
    ...(isSecure ? { 'strict-transport-security': transportSecurity } : {}),
  };
}

/** Must come before any stage that could fail. */
export function setSecurityHeaders(headers: SecurityHeaders): Stage {
  return function setSecurityHeaders(ctx, next) {
    setHeaders(ctx.res, headers);
    return next();
  };
}

/**
 * Sets CORS headers (contract.md#a4-browsers). Routes that no page of any origin may call are for the console, which has one origin.
 * Nothing uses cookies, so credentials are not allowed.
 */
export function allowOrigins(routes: readonly Route[], { consoleUrl }: { consoleUrl: string }): Stage {
  const consoleOrigin = new URL(consoleUrl).origin;
  const open = routes.filter(({ anyOrigin }) => anyOrigin).map(({ path }) => path);
  const fixed = new Set(open);
  const patterns = open
    .filter((path) => /[:*]/.test(path))
    .map((path) => new RegExp(`^${path.replaceAll('.', '\\.').replace(/\*\w+/g, '.+').replace(/:\w+/g, '[^/]+')}$`));
  const isOpen = (path: string) => fixed.has(path) || patterns.some((pattern) => pattern.test(path));
  const originFor = (ctx: Pick<AppContext, 'path' | 'get'>) =>
    isOpen(ctx.path) ? '*' : ctx.get('origin') === consoleOrigin ? consoleOrigin : '';
  const answerPreflight = cors({
    origin: originFor,
    allowMethods: methodsOf(routes),
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

/** Forbids caches to store a response that can contain a key, or a file that may be deleted (RFC 9111 5.2.2.5). */
export const forbidStoring: Stage = async function forbidStoring(ctx, next) {
  ctx.set('cache-control', 'no-store');
  await next();
};
