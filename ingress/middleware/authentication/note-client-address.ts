import { clientAddress } from '../../callers/guests/client-address.ts';
import type { Stage } from '../../request-state.ts';

/** Notes the client's address at the start of the request: later its connection may be closed, and tell no address. */
export function noteClientAddress({ trustedProxyHops }: { trustedProxyHops: number }): Stage {
  return function noteClientAddress(ctx, next) {
    ctx.state.address = clientAddress(ctx.req, trustedProxyHops);
    return next();
  };
}
