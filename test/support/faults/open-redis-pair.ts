import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Redis } from 'ioredis';
import { startRedis } from '../../stack/redis-server.ts';
import { addressIn, startTcpProxy } from '../tcp-proxy.ts';

/** How long the replica refuses writes: the time until its promotion is agreed. */
export const notPromotedMs = 3_000;

/** A primary and its replica, and the one address under which the service knows them. */
export async function openRedisPair(t: ExecutionContext) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const directory = await mkdtemp(join(tmpdir(), 'failover-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const primary = parts.use(await startRedis({ directory: join(directory, 'primary') }));
  const replica = parts.use(await startRedis({ directory: join(directory, 'replica') }));
  const toReplica = parts.adopt(new Redis(replica.url), (connection) => connection.disconnect());
  const { host, port } = addressIn(primary.url);
  await toReplica.replicaof(host, port);
  while (!(await toReplica.info('replication')).includes('master_link_status:up')) await sleep(20);
  const proxy = parts.use(await startTcpProxy({ host, port }));
  return {
    parts,
    proxy,
    url: `redis://127.0.0.1:${proxy.port}`,
    /** The primary is dead and the replica has its address, but refuses every write. */
    async failOver() {
      await primary.kill('SIGKILL');
      proxy.pointAt(addressIn(replica.url));
    },
    promote: () => toReplica.replicaof('NO', 'ONE'),
  };
}
