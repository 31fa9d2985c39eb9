import { isIP } from 'node:net';
import type Koa from 'koa';
import { ApiError } from '../../shared/errors.ts';

/**
 * The operations listener asks nobody who he is, and a browser on the operator's machine carries requests of any page that is
 * open in it. So such a page must neither reach the dashboard under a name of its own (DNS rebinding, which makes it the same
 * origin), nor change anything from another origin. Fails with `FORBIDDEN`. `ownName` is the name that the listener was
 * told to bind to.
 */
export function refuseForeignPages(ctx: Koa.Context, ownName: string): void {
  if (!isNobodysDomain(ctx.hostname, ownName)) {
    throw new ApiError('FORBIDDEN', 'This is answered at an IP address, localhost, or a name without dots.');
  }
  if (ctx.method !== 'GET' && ctx.method !== 'HEAD' && isFromElsewhere(ctx)) {
    throw new ApiError('FORBIDDEN', 'A page of another origin may not change anything here.');
  }
}

/** A domain that somebody could have registered has a dot in it. */
function isNobodysDomain(hostname: string, ownName: string): boolean {
  const name = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  return name !== '' && (isIP(name) !== 0 || !name.includes('.') || name === ownName);
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
