import { rateLimitExceeded } from '../../../shared/errors.ts';
import type { MinuteCounts } from '../../limits/minute-counts.ts';

/** Counts a call of guest mint from this network. Fails with `rate_limit_exceeded` once a minute has too many of them. */
export type LimitCalls = (network: string) => Promise<void>;

/** A network that is known to be past the limit is refused with no I/O. While Redis is away, each ingress counts its own calls. */
export function createLimitCalls({ calls, perMinute }: { calls: MinuteCounts; perMinute: number }): LimitCalls {
  return async function limitCalls(network) {
    const known = calls.known(network);
    const { count, leftMs } = known.count > perMinute ? known : await calls.add(network);
    if (count <= perMinute) return;
    throw rateLimitExceeded('guest_calls', `Too many calls from this network. Retry in ${leftMs} ms.`, leftMs);
  };
}
