import { clientAddress, networkOf } from '../guests/client-address.ts';
import type { LimitCalls } from '../guests/limit-calls.ts';
import type { Stage } from '../request-state.ts';

type Parts = { limitCalls: LimitCalls; trustedProxyHops: number };

/** Guest mint needs no credential, so each call counts by its network, before its body is read: device ids could be guessed. */
export function limitGuestCalls({ limitCalls, trustedProxyHops }: Parts): Stage {
  return async function limitGuestCalls(ctx, next) {
    await limitCalls(networkOf(clientAddress(ctx.req, trustedProxyHops)));
    await next();
  };
}
