import { z } from 'zod';
import { rateLimitExceeded } from '../../shared/errors.ts';
import { storedJson } from '../../shared/json/stored-values.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { guestMintsKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { networkOf } from '../listener/request-headers.ts';

const script = loadLua(new URL('./limit-mints.lua', import.meta.url), {
  keys: '...networks',
  args: 'device ...limits',
});
const answerSchema = storedJson.pipe(z.object({ waitMs: z.number(), network: z.string() }));

/**
 * Admits a new device of this client address, or fails with `rate_limit_exceeded`. The same device counts once, however often it is tried.
 * `SERVICE_UNAVAILABLE` while Redis is unavailable.
 */
export type LimitMints = (mint: { address: string; device: string }, limits: Limits) => Promise<void>;

type Limits = Pick<PlanFile, 'guestMintsPerHour' | 'guestMintsPerHourTotal'>;

/** Many clients share a wider network, but one client can also own it: its limit is `times` the limit of a /64. */
const networkSizes = [
  { bits: 64, times: 1 },
  { bits: 56, times: 4 },
  { bits: 48, times: 16 },
] as const;

/**
 * Counts new devices by IPv4 address, or by /64, /56 and /48 of IPv6, and in total if the plan file has a limit
 * (contract.md#l5-guest-mint).
 */
export function createLimitMints(redis: Redis): LimitMints {
  const run = loadScript(redis, script);
  const allNetworks = guestMintsKey('all');

  function limitsFor(address: string, { guestMintsPerHour, guestMintsPerHourTotal }: Limits): Map<string, number> {
    const limits = new Map<string, number>();
    for (const { bits, times } of networkSizes) {
      const key = guestMintsKey(networkOf(address, bits));
      if (!limits.has(key)) limits.set(key, times * guestMintsPerHour); // an IPv4 address is the same key for all three
    }
    if (guestMintsPerHourTotal !== undefined) limits.set(allNetworks, guestMintsPerHourTotal);
    return limits;
  }

  return async function limitMints({ address, device }, given) {
    const limits = limitsFor(address, given);
    const asked = run({ networks: [...limits.keys()], device, limits: [...limits.values()] });
    const { waitMs, network } = answerSchema.parse(await redisUnavailable(asked));
    if (waitMs === 0) return;
    const whose = network === allNetworks ? '' : ' from this network';
    throw rateLimitExceeded('guest_mints', `Too many new devices${whose} within an hour.`, waitMs);
  };
}
