import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript } from '../../shared/redis.ts';
import { partitionKeeperKey } from '../../shared/redis-keys.ts';

const lua = readFileSync(new URL('./hold-partition.lua', import.meta.url), 'utf8');

/** Whether the partition is this worker's from now on, for `holdMs`. */
type HoldPartition = (partition: number) => Promise<boolean>;

export function createHoldPartition(
  redis: Redis,
  { workerId, holdMs }: { workerId: string; holdMs: number },
): HoldPartition {
  const run = loadScript(redis, { name: 'svcHoldPartition', lua, numberOfKeys: 1 });
  return async (partition) => {
    return z.number().parse(await run([partitionKeeperKey(partition)], [workerId, holdMs])) === 1;
  };
}
