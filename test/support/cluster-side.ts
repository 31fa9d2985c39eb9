import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import { connectForRequests, connectForWork, type Redis } from '../../shared/redis/connections.ts';
import { waitUntilReady } from '../../shared/redis/wait-for-redis.ts';
import { type ClusterNode, type RedisCluster, startRedisCluster } from '../stack/redis-cluster.ts';
import { recordedLog } from './recorded-log.ts';

export type ClusterSide = AsyncDisposable & {
  cluster: RedisCluster;
  /** Connections of the service to it, ready. They are closed when the test ends. */
  connect(t: ExecutionContext, kind?: 'requests' | 'work'): Promise<Redis>;
  /** A key of each master, with that master. The names begin with `prefix`. */
  keys(prefix: string): Promise<{ key: string; holder: ClusterNode }[]>;
};

/** A private cluster of three masters without replicas. */
export async function openClusterSide(): Promise<ClusterSide> {
  const directory = await mkdtemp(join(tmpdir(), 'redis-cluster-'));
  const cluster = await startRedisCluster({ directory, replicasEach: 0 });
  return {
    cluster,
    async connect(t, kind = 'requests') {
      const { log } = recordedLog();
      const redis = kind === 'requests' ? connectForRequests(cluster.url, log) : connectForWork(cluster.url, log);
      t.teardown(() => redis.disconnect());
      await waitUntilReady(redis, AbortSignal.timeout(30_000));
      return redis;
    },
    async keys(prefix) {
      const found = new Map<ClusterNode, string>();
      for (let index = 0; found.size < 3; index++) {
        const key = `${prefix}${index}`;
        const holder = await cluster.holderOf(key);
        if (!found.has(holder)) found.set(holder, key);
      }
      return [...found].map(([holder, key]) => ({ holder, key }));
    },
    async [Symbol.asyncDispose]() {
      await cluster[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
