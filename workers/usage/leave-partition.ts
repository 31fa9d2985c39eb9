import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { loadScript } from '../../shared/redis.ts';
import { partitionKeeperKey } from '../../shared/redis-keys.ts';

const lua = readFileSync(new URL('./leave-partition.lua', import.meta.url), 'utf8');

/** Gives up a partition that is this worker's, so that nobody waits for its hold to end. */
export function createLeavePartition(redis: Redis, { workerId }: { workerId: string }) {
  const run = loadScript(redis, { name: 'svcLeavePartition', lua, numberOfKeys: 1 });
  return async function leavePartition(partition: number): Promise<void> {
    await run([partitionKeeperKey(partition)], [workerId]);
  };
}
