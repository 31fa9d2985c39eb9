import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { RedisServer } from './redis-server.ts';

export interface ClusterNode extends RedisServer {
  /** Its name within the cluster. */
  readonly id: string;
  /** The port that other nodes use. */
  readonly busPort: number;
  /** A connection of tests to this node alone. */
  readonly redis: Redis;
}

/** What one node knows: the nodes, and who holds which slots. */
type View = {
  known: readonly Known[];
  /** All slots are held by nodes that it can reach, and its own replication works. */
  isWhole: boolean;
  /** Who holds which slots, as text to compare. */
  holders: string;
};
type Known = { id: string; masterId: string; isMyself: boolean; isMaster: boolean; epoch: number; ranges: Range[] };
type Range = { from: number; to: number };

export const slotCount = 16_384;

/** A node that starts again waits two seconds before it is writable, and an election takes as long. */
const withinMs = 30_000;
const lookEveryMs = 20;

/** Waits until this is true, and fails if that takes too long. Nodes that do not answer yet count as false. */
export async function lookUntil(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isTrue().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(lookEveryMs);
  }
}

/** Joins new nodes: the first ones share the slots, and the others are their replicas, in turns. */
export async function joinNodes(nodes: readonly ClusterNode[], masterCount: number): Promise<void> {
  const [masters, replicas] = [nodes.slice(0, masterCount), nodes.slice(masterCount)];
  const firstSlotOf = (index: number) => Math.round((index * slotCount) / masterCount);
  await Promise.all(nodes.map(({ redis }, index) => redis.cluster('SET-CONFIG-EPOCH', index + 1)));
  await Promise.all(
    masters.map(({ redis }, index) => redis.cluster('ADDSLOTSRANGE', firstSlotOf(index), firstSlotOf(index + 1) - 1)),
  );
  for (const [index, node] of nodes.entries()) await meet(node, nodes.slice(0, index));
  await lookUntil('all nodes know each other', async () => {
    const views = await Promise.all(nodes.map(viewOf));
    return views.every(({ known }) => known.length === nodes.length);
  });
  await Promise.all(
    replicas.map(({ redis }, index) => redis.cluster('REPLICATE', masters[index % masterCount]?.id ?? '')),
  );
  await untilWhole(nodes);
}

/** Introduces a node to others. Each must be met, otherwise it would learn of them only after a while. */
export async function meet({ redis }: ClusterNode, others: readonly ClusterNode[]): Promise<void> {
  await Promise.all(others.map(({ port, busPort }) => redis.call('CLUSTER', 'MEET', '127.0.0.1', port, busPort)));
}

/** Waits until every slot is held, and all these nodes agree about it. */
export async function untilWhole(nodes: readonly ClusterNode[]): Promise<void> {
  await lookUntil('all nodes agree who holds every slot', async () => {
    const views = await Promise.all(nodes.map(viewOf));
    return views.every(({ isWhole, holders }) => isWhole && holders === views[0]?.holders);
  });
}

export async function viewOf({ redis }: ClusterNode): Promise<View> {
  const [nodes, info, replication] = await Promise.all([
    redis.cluster('NODES'),
    redis.cluster('INFO'),
    redis.info('replication'),
  ]);
  const known = String(nodes).trim().split('\n').map(parseKnown);
  const isLinked = replication.includes('role:master') || replication.includes('master_link_status:up');
  const holders = known
    .filter(({ ranges }) => ranges.length > 0)
    .map(({ id, ranges }) => JSON.stringify({ id, ranges }));
  return {
    known,
    isWhole: info.includes('cluster_state:ok') && info.includes(`cluster_slots_ok:${slotCount}`) && isLinked,
    holders: holders.sort().join(),
  };
}

/** A line of `CLUSTER NODES`. A slot that is moving is listed once more, in brackets. */
function parseKnown(line: string): Known {
  const [id = '', , flags = '', masterId = '', , , epoch = '', , ...slots] = line.split(' ');
  const ranges = slots
    .filter((text) => !text.startsWith('['))
    .map((text) => text.split('-').map(Number))
    .map(([from = 0, to = from]) => ({ from, to }));
  const names = flags.split(',');
  return {
    ...{ id, masterId, ranges, epoch: Number(epoch) },
    isMyself: names.includes('myself'),
    isMaster: names.includes('master'),
  };
}

/** The node that holds this slot by its own account. After a failover the old master may still believe so: the later claim counts. */
export async function holderOf(slot: number, nodes: readonly ClusterNode[]): Promise<ClusterNode | undefined> {
  const claims = await Promise.all(nodes.map(async (node) => ({ node, own: ownIn(await viewOf(node)) })));
  const holding = claims.filter(
    ({ own }) => own?.isMaster && own.ranges.some(({ from, to }) => from <= slot && slot <= to),
  );
  return holding.sort((one, other) => (other.own?.epoch ?? 0) - (one.own?.epoch ?? 0))[0]?.node;
}

export function ownIn({ known }: View): Known | undefined {
  return known.find(({ isMyself }) => isMyself);
}

export function isRunning({ pid }: ClusterNode): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
