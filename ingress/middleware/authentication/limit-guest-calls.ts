import type { LimitCalls } from '../../limits/minute-counts.ts';
import { networkOf } from '../../listener/client-address.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/** Counts each call for a guest key by its network, before its body is read. It needs no credential, so device ids could be guessed. */
export function limitGuestCalls({ limitGuestCalls: limit }: { limitGuestCalls: LimitCalls }): Stage {
  return async function limitGuestCalls(ctx, next) {
    await limit(networkOf(stateOf(ctx, 'address')), stateOf(ctx, 'planFile').guestCallsPerMinute);
    await next();
  };
}
