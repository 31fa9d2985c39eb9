import type Koa from 'koa';
import { ApiError } from '../../../shared/errors.ts';

/**
 * The operations listener has no authentication, and a browser on the operator's machine carries requests of any page that is
 * open in it. A page of another origin cannot read an answer of the listener, and must not change anything. Fails with `FORBIDDEN`.
 */
export function refuseForeignChanges(ctx: Koa.Context): void {
  if (ctx.method !== 'GET' && ctx.method !== 'HEAD' && isFromElsewhere(ctx)) {
    throw new ApiError('FORBIDDEN', 'A page of another origin may not change anything here.');
  }
}

/**
 * Browsers say so by `Sec-Fetch-Site`, older ones by an `Origin` that is not where they sent it; what says neither is no
 * browser (the rule of Go's net/http `CrossOriginProtection`).
 */
function isFromElsewhere(ctx: Koa.Context): boolean {
  const site = ctx.get('sec-fetch-site');
  if (site !== '') return site !== 'same-origin' && site !== 'none';
  const origin = ctx.get('origin');
  return origin !== '' && URL.parse(origin)?.host !== ctx.host;
}
