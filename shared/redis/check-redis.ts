import { Cluster } from 'ioredis';
import { loadScript, masterAddresses, masterAt, nodeOf, type Redis } from './connections.ts';
import { loadLua } from './load-lua.ts';

type Check = () => Promise<unknown>;

/**
 * Checks that Redis accepts writes. In a cluster, one of the nodes that have these keys is enough: a process that serves several models works
 * while some of their queues are unavailable.
 */
export type CheckWrites = (keys: readonly string[]) => Promise<void>;

export function createCheckWrites(redis: Redis): CheckWrites {
  const lua = loadLua(new URL('./check-redis.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcCheckWrites', lua, numberOfKeys: 1 });
  return async function checkWrites(keys) {
    const keyOfNode = new Map(keys.map((key) => [nodeOf(redis, key), key]));
    await Promise.any([...keyOfNode.values()].map((key) => call([key], [])));
  };
}

/** A check of each master of a cluster, by its address; none without a cluster. */
export function checksOfNodes(name: string, redis: Redis): Readonly<Record<string, Check>> {
  if (!(redis instanceof Cluster)) return {};
  return Object.fromEntries(masterAddresses(redis).map((node) => [`${name} ${node}`, () => pingNode(redis, node)]));
}

/**
 * A node that cannot be reached has no connection. The library makes one only for a command with a key of that node, or when it reads again
 * which node has which slots: then the next check finds it.
 */
async function pingNode(cluster: Cluster, address: string): Promise<void> {
  const node = masterAt(cluster, address);
  if (node !== undefined) return void (await node.ping());
  cluster.refreshSlotsCache();
  throw new Error('not connected');
}
