import { Cluster } from 'ioredis';
import { connectForWork, mastersOf, type Redis } from '../../shared/redis/connections.ts';
import { recordedLog } from './recorded-log.ts';

/** A test's own connection to the Redis of a stack, which may be a cluster. Connects again after an outage. */
export function openRedis(url: string): Redis {
  return connectForWork(url, recordedLog().log);
}

/** Connections to each node that has keys: for commands that concern one node. */
export async function nodesOf(redis: Redis) {
  if (redis instanceof Cluster && redis.status !== 'ready')
    await new Promise((resolve) => redis.once('ready', resolve));
  return mastersOf(redis);
}

export async function allKeys(redis: Redis): Promise<string[]> {
  const keys = await Promise.all((await nodesOf(redis)).map((node) => node.keys('*')));
  return keys.flat();
}
