import { clientAddress } from '../../listener/client-address.ts';
import type { Stage } from '../../request-state.ts';

/** Stores the client's address at the start of the request: a closed connection has no address any more. */
export function noteClientAddress({ trustedProxyHops }: { trustedProxyHops: number }): Stage {
  return function noteClientAddress(ctx, next) {
    ctx.state.address = clientAddress(ctx.req, trustedProxyHops);
    return next();
  };
}
