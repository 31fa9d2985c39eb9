import { rateLimitExceeded } from '../../../shared/errors.ts';
import type { MinuteCounts } from '../../limits/minute-counts.ts';

/** Counts a guest mint call from this network. Fails with `rate_limit_exceeded` if there are too many within a minute. */
export type LimitCalls = (network: string, perMinute: number) => Promise<void>;

/** A network that is known to exceed the limit is refused without I/O. While Redis is unavailable, each ingress counts its own calls. */
export function createLimitCalls({ calls }: { calls: MinuteCounts }): LimitCalls {
  return async function limitCalls(network, perMinute) {
    const known = calls.known(network);
    const { count, leftMs } = known.count > perMinute ? known : await calls.add(network);
    if (count <= perMinute) return;
    throw rateLimitExceeded('guest_calls', `Too many calls from this network. Retry in ${leftMs} ms.`, leftMs);
  };
}
