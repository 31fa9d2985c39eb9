import { Cluster, type Redis as SingleRedis } from 'ioredis';
import { masterAddresses, masterAt, type Redis } from '../../shared/redis/connections.ts';

/** Returns the current connection to a master. Fails while there is none. It is another one after a connection was lost. */
type ConnectToMaster = () => Promise<SingleRedis>;

/**
 * The masters of a cluster that have slots, or the one Redis. Masters that are away are among them: the library removes only their
 * connections.
 */
export async function mastersToScan(redis: Redis): Promise<ConnectToMaster[]> {
  if (!(redis instanceof Cluster)) return [async () => redis];
  await refreshSlots(redis);
  const addresses = masterAddresses(redis);
  if (addresses.length === 0) throw new Error('no master of the Redis Cluster is known');
  return addresses.map((address) => () => connectTo(redis, address));
}

async function connectTo(cluster: Cluster, address: string): Promise<SingleRedis> {
  if (masterAt(cluster, address) === undefined) await refreshSlots(cluster);
  const node = masterAt(cluster, address);
  if (node === undefined) throw new Error(`${address} is not a master of the Redis Cluster`);
  return node;
}

/** Also makes the library connect again to nodes that have slots. */
function refreshSlots(cluster: Cluster): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  cluster.refreshSlotsCache((error) => (error ? reject(error) : resolve()));
  return promise;
}
