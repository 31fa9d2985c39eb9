import type Koa from 'koa';
import { ApiError } from '../../../shared/errors.ts';

/**
 * Refuses a change that a page of another origin requests, with `FORBIDDEN`. The operations listener has no authentication, and a browser
 * on the operator's machine sends the requests of any open page. Such a page cannot read the responses of the listener, and must not
 * change anything.
 */
export function refuseForeignChanges(ctx: Koa.Context): void {
  if (ctx.method !== 'GET' && ctx.method !== 'HEAD' && isFromElsewhere(ctx)) {
    throw new ApiError('FORBIDDEN', 'A page of another origin may not change anything here.');
  }
}

/**
 * Browsers send `Sec-Fetch-Site`; older ones send an `Origin` that differs from the host. A request with neither is not from a
 * browser (the rule of Go's net/http `CrossOriginProtection`).
 */
function isFromElsewhere(ctx: Koa.Context): boolean {
  const site = ctx.get('sec-fetch-site');
  if (site !== '') return site !== 'same-origin' && site !== 'none';
  const origin = ctx.get('origin');
  return origin !== '' && URL.parse(origin)?.host !== ctx.host;
}
