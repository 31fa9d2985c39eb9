import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { rateLimitExceeded } from '../../shared/errors.ts';
import { loadScript, redisUnavailable } from '../../shared/redis.ts';
import { guestMintsKey } from '../../shared/redis-keys.ts';

const lua = readFileSync(new URL('./limit-mints.lua', import.meta.url), 'utf8');

/**
 * Lets a new device in from this client address (a `networkOf` one), or fails with `rate_limit_exceeded`; the same device
 * counts once, however often it is tried. `SERVICE_UNAVAILABLE` while Redis is away (API C12).
 */
export type LimitMints = (mint: { address: string; device: string }) => Promise<void>;

export function createLimitMints(redis: Redis, { mintsPerHour }: { mintsPerHour: number }): LimitMints {
  const run = loadScript(redis, { name: 'svcLimitMints', lua, numberOfKeys: 1 });
  return async function limitMints({ address, device }) {
    const waitMs = z.number().parse(await redisUnavailable(run([guestMintsKey(address)], [device, mintsPerHour])));
    if (waitMs === 0) return;
    throw rateLimitExceeded('requests_limit', 'Too many new devices from this address within an hour.', waitMs);
  };
}
