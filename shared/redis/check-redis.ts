import { Cluster, type Redis as SingleRedis } from 'ioredis';
import { masterAddresses, masterAt, nodeOf, type Redis } from './connections.ts';
import { fleetKey } from './keys.ts';
import { loadLua, loadScript } from './load-lua.ts';

type Check = () => Promise<unknown>;
type CheckNode = (node: SingleRedis) => Promise<unknown>;

const script = loadLua(new URL('./check-redis.lua', import.meta.url), { keys: '...keys' });

/**
 * Checks that Redis accepts writes. In a cluster, one of the nodes that have these keys is enough: a process that serves several models
 * works while some of their queues are unavailable. Without keys, as in a worker whose pools have no model any more, it is the node of a
 * fixed key.
 */
type CheckWrites = (keys: readonly string[]) => Promise<void>;

export function createCheckWrites(redis: Redis): CheckWrites {
  const call = loadScript(redis, script);
  return async function checkWrites(keys) {
    const asked = keys.length > 0 ? keys : [fleetKey];
    const keyOfNode = new Map(asked.map((key) => [nodeOf(redis, key), key]));
    await Promise.any([...keyOfNode.values()].map((key) => call({ keys: [key] })));
  };
}

/** Checks of the masters of a cluster, by their addresses, whether each accepts writes; none without a cluster. */
export function checkWritesOfNodes(name: string, redis: Redis): Readonly<Record<string, Check>> {
  return checksOfNodes(name, redis, (node) => node.eval(script.lua, 0));
}

/** Checks of the masters of a cluster, whether each answers. */
export function pingsOfNodes(redis: Redis): Readonly<Record<string, Check>> {
  return checksOfNodes('', redis, (node) => node.ping());
}

function checksOfNodes(name: string, redis: Redis, check: CheckNode): Readonly<Record<string, Check>> {
  if (!(redis instanceof Cluster)) return {};
  const checks = masterAddresses(redis).map((node) => [`${name} ${node}`.trim(), () => checkAt(redis, node, check)]);
  return Object.fromEntries(checks);
}

/**
 * A node that cannot be reached has no connection. The library makes one only for a command with a key of that node, or when it reads again
 * which node has which slots: then the next check finds it.
 */
async function checkAt(cluster: Cluster, address: string, check: CheckNode): Promise<void> {
  const node = masterAt(cluster, address);
  if (node !== undefined) return void (await check(node));
  cluster.refreshSlotsCache();
  throw new Error('not connected');
}
