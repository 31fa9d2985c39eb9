import { type BurstLimit, rateLimitExceeded } from '../../shared/errors.ts';
import type { MinuteCounts } from './minute-counts.ts';

/** Counts a call of this subject, a network or an account. Fails with `rate_limit_exceeded` if there are too many within a minute. */
export type LimitCalls = (subject: string, perMinute: number) => Promise<void>;

/** By the type of the limit: the message for too many calls. */
const messages = {
  // contract.md#l5-guest-mint
  guest_calls: 'Too many calls from this network.',
  // contract.md#ho4-what-an-account-creates
  settings_limit: 'This account has changed its keys and settings too often within a minute.',
} as const satisfies Partial<Record<BurstLimit, string>>;

/** A subject that is known to exceed the limit is refused without I/O. While Redis is unavailable, each ingress counts its own calls. */
export function createLimitCalls({ kind, calls }: { kind: keyof typeof messages; calls: MinuteCounts }): LimitCalls {
  return async function limitCalls(subject, perMinute) {
    const known = calls.known(subject);
    const { count, leftMs } = known.count > perMinute ? known : await calls.add(subject);
    if (count <= perMinute) return;
    throw rateLimitExceeded(kind, `${messages[kind]} Retry in ${leftMs} ms.`, leftMs);
  };
}
