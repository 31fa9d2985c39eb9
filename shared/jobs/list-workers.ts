import { z } from 'zod';
import type { Redis } from '../redis/connections.ts';
import { sharesExpiryKey, sharesKey } from '../redis/coordination-keys.ts';
import { redisNow } from '../redis/redis-now.ts';

/** Lists the ids of the workers that are alive and take jobs: those of a pool, or all. */
export type ListWorkers = (pool?: string) => Promise<string[]>;

const workerSchema = z.object({ pools: z.union([z.array(z.string()), z.object({})]) });
/** The queue dashboard asks for each of its queues at once, and the metrics ask for each pool. */
const freshMs = 1_000;

/** Reads the workers that announce themselves when they renew their shares of backends (`workers/fleet-limits`). */
export function createListWorkers(redis: Redis): ListWorkers {
  let latest: { at: number; workers: Promise<{ id: string; pools: string[] }[]> } | undefined;

  async function read(): Promise<{ id: string; pools: string[] }[]> {
    const now = await redisNow(redis, sharesExpiryKey());
    const ids = await redis.zrangebyscore(sharesExpiryKey(), `(${now}`, '+inf');
    if (ids.length === 0) return [];
    const texts = await redis.hmget(sharesKey(), ...ids.map((id) => `worker ${id}`));
    return ids.map((id, index) => ({ id, pools: poolsOf(texts[index] ?? '{"pools":[]}') }));
  }

  return async function listWorkers(pool) {
    if (latest === undefined || performance.now() - latest.at > freshMs)
      latest = { at: performance.now(), workers: read() };
    const serves = (pools: readonly string[]) => (pool === undefined ? pools.length > 0 : pools.includes(pool));
    return (await latest.workers).filter(({ pools }) => serves(pools)).map(({ id }) => id);
  };
}

/** Lua writes an empty list as an object. */
function poolsOf(text: string): string[] {
  const { pools } = workerSchema.parse(JSON.parse(text));
  return Array.isArray(pools) ? pools : [];
}
