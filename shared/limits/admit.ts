import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript, redisUnavailable } from '../redis.ts';
import { requestRunsKey } from '../redis-keys.ts';

const lua = readFileSync(new URL('./admit.lua', import.meta.url), 'utf8');

/** Milliseconds of Redis's clock: a job is first started by `startBy` or not at all, and over by `deadline`. */
export type Admission = { admittedAt: number; startBy: number; deadline: number };

export type Admit = (request: { account: string; requestId: string }) => Promise<Admission>;

/** The one round trip between a request and its queue, or `SERVICE_UNAVAILABLE`; it writes nothing, so it can be repeated. */
export function createAdmit(redis: Redis, timeouts: { queueMs: number; requestMs: number }): Admit {
  const run = loadScript(redis, { name: 'svcAdmit', lua, numberOfKeys: 1 });
  return async ({ account, requestId }) => {
    const admittedAt = z.number().parse(await redisUnavailable(run([requestRunsKey(account, requestId)], [])));
    return { admittedAt, startBy: admittedAt + timeouts.queueMs, deadline: admittedAt + timeouts.requestMs };
  };
}
