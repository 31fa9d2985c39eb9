import { ApiError } from '../../shared/errors.ts';
import type { AppContext, Stage } from '../request-state.ts';
import type { StaticContent } from './static-content.ts';

/** A year, and never asked for again: its address changes with its bytes (RFC 8246). */
const forGood = 'public, max-age=31536000, immutable';
/** Kept, and asked for each time: 304 while it is the same. */
export const askFirst = 'no-cache';

/** `GET` of a page of our own: it may load and reach what `policy` names, be framed by nobody, and tells nobody where one came from. */
export function servePage(content: StaticContent, policy: string, status: Status = 200): Stage {
  return async function servePage(ctx) {
    ctx.set({
      'content-security-policy': policy,
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
    });
    send(ctx, content, askFirst, status);
  };
}

/** `GET` of what a page loads, by the name that has its hash in it; any other is `missing`, left out `NOT_FOUND`. */
export function serveAsset(assets: ReadonlyMap<string, StaticContent>, missing?: Stage): Stage {
  return async function serveAsset(ctx, next) {
    const { params } = ctx as { params?: { asset?: string } }; // the router sets it for the route that names it
    const content = assets.get(params?.asset ?? '');
    if (content !== undefined) return send(ctx, content, forGood);
    if (missing === undefined) throw new ApiError('NOT_FOUND', 'There is nothing at this path.');
    await missing(ctx, next);
  };
}

type Status = 200 | 404;

/** As small as its client can read it; 304 with no body to one that has it, unless the status is 404. */
export function send(ctx: AppContext, content: StaticContent, cacheControl: string, status: Status = 200): void {
  ctx.status = status;
  ctx.type = content.type;
  ctx.set({
    'cache-control': cacheControl,
    'cross-origin-resource-policy': 'same-origin',
    etag: `W/"${content.hash}"`, // weak: it is the same compressed or not
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
