import type { Product } from '../console/session/browser.ts';
import type { AppContext } from '../request-state.ts';
import type { SharedAssets } from './shared-assets.ts';
import type { StaticContent } from './static-content.ts';

/** Cached for a year without revalidation: the address changes with the bytes (RFC 8246). */
const immutable = 'public, max-age=31536000, immutable';
/** Cached, but revalidated each time: 304 while it is unchanged. */
export const askFirst = 'no-cache';

/** Sends one of our pages: it may load and call only what `policy` allows, cannot be framed, and sends no referrer. */
export function sendPage(ctx: AppContext, content: StaticContent, policy: string, status: Status = 200): void {
  ctx.set({
    'content-security-policy': policy,
    'cross-origin-opener-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-frame-options': 'DENY',
  });
  send(ctx, content, askFirst, status);
}

type Assets = {
  own: ReadonlyMap<string, StaticContent>;
  shared: Pick<SharedAssets, 'find'>;
};

/** Sends an asset by its name with a hash, which may be of another release. Returns false for other names. */
export async function sendAsset(ctx: AppContext, name: string, { own, shared }: Assets): Promise<boolean> {
  const content = own.get(name) ?? (await shared.find(name));
  if (content !== undefined) send(ctx, content, immutable);
  return content !== undefined;
}

type Status = 200 | 404;

/** Sends the smallest encoding that the client accepts; 304 without a body if the client has the content, unless the status is 404. */
export function send(ctx: AppContext, content: StaticContent, cacheControl: string, status: Status = 200): void {
  ctx.status = status;
  ctx.type = content.type;
  ctx.set({
    'cache-control': cacheControl,
    'cross-origin-resource-policy': 'same-origin',
    etag: `W/"${content.hash}"`, // weak: the same for all encodings
  });
  ctx.vary('Accept-Encoding');
  if (ctx.fresh) {
    ctx.status = 304;
    return;
  }
  const encoding = ctx.acceptsEncodings('br', 'gzip', 'identity');
  const compressed = encoding === 'br' ? content.br : encoding === 'gzip' ? content.gzip : undefined;
  if (compressed !== undefined) ctx.set('content-encoding', String(encoding));
  ctx.state.isBodyShared = true;
  ctx.body = compressed ?? content.bytes;
}

type PolicyParts = { connect?: readonly string[]; product: Pick<Product, 'logoUrl'> };

/**
 * The content security policy of our pages (CSP Level 3): scripts, styles and images only from our own host and not inline; `fetch` also
 * to the origins of `connect`, and images also from that of the product's logo; no form submissions, no framing, and no HTML from strings.
 */
export function contentSecurityPolicy({ connect = [], product }: PolicyParts): string {
  const logo = product.logoUrl === undefined ? [] : [new URL(product.logoUrl).origin];
  const directives = {
    'default-src': ["'none'"],
    'script-src': ["'self'"],
    'style-src': ["'self'"],
    'img-src': ["'self'", ...logo],
    'connect-src': ["'self'", ...connect],
    'form-action': ["'none'"],
    'base-uri': ["'none'"],
    'frame-ancestors': ["'none'"],
    'require-trusted-types-for': ["'script'"],
    'trusted-types': ["'none'"],
  };
  return Object.entries(directives)
    .map(([name, sources]) => [name, ...new Set(sources)].join(' '))
    .join('; ');
}
