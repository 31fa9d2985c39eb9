import { join } from 'node:path';
import { Redis } from 'ioredis';
import {
  type ClusterNode,
  holderOf,
  isRunning,
  joinNodes,
  lookUntil,
  meet,
  ownIn,
  untilWhole,
  viewOf,
} from './cluster-nodes.ts';
import { freePort } from './free-port.ts';
import { moveSlot, type SlotMove } from './move-slot.ts';
import { type RedisSettings, startRedis } from './redis-server.ts';

export type { ClusterNode } from './cluster-nodes.ts';

/** How long a node may be silent until the others declare it dead. Then its replica is elected, if it has one. */
export const nodeTimeoutMs = 2_000;

const clusterSettings = {
  'cluster-enabled': 'yes',
  'cluster-node-timeout': String(nodeTimeoutMs),
  'cluster-require-full-coverage': 'no',
  'cluster-allow-replica-migration': 'no',
  'repl-diskless-sync-delay': '0', // otherwise a replica waits five seconds for others
  databases: '1',
};

type Options = {
  directory: string;
  masters?: number;
  replicasEach?: number;
  /** Further settings of every node. */
  settings?: RedisSettings;
  /** Whether each node also has a port with TLS, which the cluster then announces to clients that use TLS. */
  tls?: RedisSettings;
};

export interface RedisCluster extends AsyncDisposable {
  /** Names the nodes that it was started with. */
  readonly url: string;
  readonly directory: string;
  /** In the order of their start: the first ones were masters then. */
  readonly nodes: readonly ClusterNode[];
  slotOf(key: string): Promise<number>;
  /** The running master that holds the slot of this key. */
  holderOf(key: string): Promise<ClusterNode>;
  /** The running masters that hold slots. */
  masters(): Promise<ClusterNode[]>;
  /** The running replicas of this master. */
  replicasOf(master: ClusterNode): Promise<ClusterNode[]>;
  /** Replaces a running master by its replica without loss. Returns the new master. */
  failOver(master: ClusterNode): Promise<ClusterNode>;
  /** Moves a slot to another master. Resolves with the number of moved keys. */
  moveSlot(move: Omit<SlotMove, 'from'>): Promise<number>;
  /** Starts a further master, which holds no slot. */
  addNode(): Promise<ClusterNode>;
  /** Makes all others forget a node without slots, and stops it. */
  removeNode(node: ClusterNode): Promise<void>;
  /** Waits until every slot is held, and all running nodes agree about it. */
  untilWhole(): Promise<void>;
  /** Removes all keys. */
  empty(): Promise<void>;
}

/**
 * A private Redis Cluster, each node with the settings of `startRedis`, joined as by `redis-cli --cluster create`. While some slots are
 * unavailable, it serves the others.
 */
export async function startRedisCluster(options: Options): Promise<RedisCluster> {
  await using parts = new AsyncDisposableStack();
  const { directory, masters: masterCount = 3, replicasEach = 1, settings = {}, tls } = options;
  const start = async (number: number) => {
    const own = tls === undefined ? settings : { ...settings, ...tls, 'tls-port': String(await freePort()) };
    return startNode({ directory: join(directory, `node-${number}`), settings: own });
  };
  const count = masterCount * (1 + replicasEach);
  const nodes = await Promise.all(Array.from({ length: count }, async (_, number) => parts.use(await start(number))));
  await joinNodes(nodes, masterCount);
  let number = count;
  const owned = parts.move();
  return {
    ...clusterOf(nodes),
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    directory,
    nodes,
    async addNode() {
      const node = owned.use(await start(number++));
      await meet(node, nodes.filter(isRunning));
      nodes.push(node);
      await untilWhole(nodes.filter(isRunning));
      return node;
    },
    async removeNode(node) {
      nodes.splice(nodes.indexOf(node), 1);
      await Promise.all(nodes.filter(isRunning).map(({ redis }) => redis.cluster('FORGET', node.id)));
      await node.stop();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startNode({
  directory,
  settings,
}: {
  directory: string;
  settings: RedisSettings;
}): Promise<ClusterNode> {
  await using parts = new AsyncDisposableStack();
  const busPort = await freePort();
  const own = { ...clusterSettings, ...settings, 'cluster-port': String(busPort) };
  const server = parts.use(await startRedis({ directory, settings: own }));
  const redis = parts.adopt(connectTo(server.port), (connection) => connection.disconnect());
  const id = String(await redis.cluster('MYID'));
  const owned = parts.move();
  return {
    ...server,
    get pid() {
      return server.pid; // another one after a restart
    },
    ...{ busPort, redis, id },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** For calls to one node: redirections are errors, and a dead or frozen node fails them. */
function connectTo(port: number): Redis {
  const redis = new Redis({
    host: '127.0.0.1',
    port,
    maxRetriesPerRequest: 1,
    commandTimeout: 10_000,
    retryStrategy: () => 50,
  });
  redis.on('error', () => {}); // tests kill it
  return redis;
}

/** What can be asked of a cluster of these nodes, and done to it. */
function clusterOf(nodes: readonly ClusterNode[]) {
  const running = () => nodes.filter(isRunning);

  async function slotOf(key: string): Promise<number> {
    const [node] = running();
    return Number(await node?.redis.cluster('KEYSLOT', key));
  }

  async function holderOfSlot(slot: number): Promise<ClusterNode> {
    const holder = await holderOf(slot, running());
    if (holder === undefined) throw new Error(`no running node holds slot ${slot}`);
    return holder;
  }

  async function masters(): Promise<ClusterNode[]> {
    const owns = await Promise.all(running().map(async (node) => ({ node, own: ownIn(await viewOf(node)) })));
    return owns.filter(({ own }) => own?.isMaster && own.ranges.length > 0).map(({ node }) => node);
  }

  async function replicasOf({ id }: ClusterNode): Promise<ClusterNode[]> {
    const owns = await Promise.all(running().map(async (node) => ({ node, own: ownIn(await viewOf(node)) })));
    return owns.filter(({ own }) => own?.masterId === id).map(({ node }) => node);
  }

  return {
    slotOf,
    masters,
    replicasOf,
    holderOf: async (key: string) => holderOfSlot(await slotOf(key)),
    untilWhole: () => untilWhole(running()),
    moveSlot: async (move: Omit<SlotMove, 'from'>) =>
      moveSlot({ ...move, from: await holderOfSlot(move.slot) }, running()),
    async failOver(master: ClusterNode) {
      const [replica] = await replicasOf(master);
      if (replica === undefined) throw new Error(`${master.url} has no running replica`);
      await replica.redis.cluster('FAILOVER');
      await lookUntil('the replica is master', async () => (await masters()).includes(replica));
      await untilWhole(running());
      return replica;
    },
    async empty() {
      await Promise.all((await masters()).map(({ redis }) => redis.flushall()));
    },
  };
}
