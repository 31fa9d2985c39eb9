import type { PrivateRedis } from '../support/private-redis.ts';

type Redis = PrivateRedis['redis'];

/** Bytes that Redis has allocated for its data. Those of its own buffers vary, and are not of the data. */
async function usedBytes(redis: Redis): Promise<number> {
  const info = await redis.info('memory');
  const numberOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? Number.NaN);
  const buffers = ['mem_clients_normal', 'mem_aof_buffer', 'mem_replication_backlog'].map(numberOf);
  return buffers.reduce((left, bytes) => left - bytes, numberOf('used_memory'));
}

/**
 * The bytes of one item: creates one, so that scripts and fixed keys exist, then `count` more. `create` removes what is not of the item,
 * and `tidy` what is there once.
 */
export async function bytesEach(
  redis: Redis,
  { count, create, tidy }: { count: number; create: () => Promise<unknown>; tidy?: () => Promise<unknown> },
): Promise<number> {
  await redis.flushall();
  await create();
  await tidy?.();
  const before = await usedBytes(redis);
  for (let made = 0; made < count; made++) await create();
  await tidy?.();
  return ((await usedBytes(redis)) - before) / count;
}

/** Bytes of a Redis that has loaded the scripts and has no data. */
export async function bytesAtRest(redis: Redis): Promise<number> {
  await redis.flushall();
  return usedBytes(redis);
}
