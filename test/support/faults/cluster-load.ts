import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Agent } from 'undici';
import { countersKey, queuePrefix } from '../../../shared/redis/keys.ts';
import { type ClusterNode, type RedisCluster, startRedisCluster } from '../../stack/redis-cluster.ts';
import { type Stack, startStack } from '../../stack/stack.ts';
import { type AskedRequest, ask } from '../truth/ask.ts';
import { openWitnesses, type Witnesses } from '../truth/open-witnesses.ts';

/**
 * A request, when it began and how long it took (`performance.now()`, ms), and the nodes that had its account and the queue of its model.
 */
export type TimedRequest = { asked: AskedRequest; beganAt: number; ms: number; nodes: readonly ClusterNode[] };

export interface ClusterLoad {
  cluster: RedisCluster;
  stack: Stack;
  witnesses: Witnesses;
  /** The requests that have ended. */
  timed: readonly TimedRequest[];
  account(node: ClusterNode): string;
  model(node: ClusterNode): string;
  /** A master without the reply stream of an ingress, so that only requests of its accounts and models need it. */
  withoutStream(): Promise<ClusterNode>;
  /**
   * Kills a node that may be away for long: its events that are in the store by then are read before, because they are trimmed afterwards.
   */
  kill(node: ClusterNode): Promise<void>;
  /** Resolves when the clients, which ask until then, have their last answers. */
  stop(): Promise<void>;
}

const accountsPerNode = 3;

/**
 * The service with two ingresses and two workers on a cluster of three masters, and clients of three accounts of each master. Each asks the
 * model of every master in turn, for whole answers and streams.
 */
export async function openClusterLoad(t: ExecutionContext, { replicasEach }: { replicasEach: number }) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const directory = await mkdtemp(join(tmpdir(), 'cluster-load-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const cluster = parts.use(await startRedisCluster({ directory, replicasEach }));
  const nodes = await cluster.masters();
  const models = await namesOn(cluster, nodes, { count: 1, prefix: 'model-', keyOf: queuePrefix });
  const keyOfAccount = (name: string) => countersKey(`user:${name}`);
  const accounts = await namesOn(cluster, nodes, { count: accountsPerNode, prefix: 'account-', keyOf: keyOfAccount });
  const modelNames = [...models.values()].flat();
  const stack = parts.use(
    await startStack({
      ...{ redisUrl: cluster.url, ingresses: 2, workers: 2, timeouts: { queue_ms: 10_000, request_ms: 60_000 } },
      models: Object.fromEntries(modelNames.map((name) => [name, { tier: 'guest', pool: 'default' }])),
      modelServers: { firstTokenMs: 30, tokensPerSecond: 300 },
    }),
  );
  const names = [...accounts.values()].flat();
  const witnesses = parts.use(await openWitnesses(stack, { accounts: names }));
  const sending = sendFrom(stack, {
    keys: witnesses.keys.map((key, index) => ({ key, node: nodeOf(accounts, names[index] ?? '') })),
    models: modelNames.map((name) => ({ name, node: nodeOf(models, name) })),
  });
  parts.defer(sending.stop);
  const load: ClusterLoad = {
    ...{ cluster, stack, witnesses, ...sending },
    account: (node) => accounts.get(node)?.[0] ?? '',
    model: (node) => models.get(node)?.[0] ?? '',
    async kill(node) {
      for (const { process } of stack.workers) process.kill('SIGSTOP'); // they drain
      await witnesses.readEvents();
      await node.kill('SIGKILL');
      for (const { process } of stack.workers) process.kill('SIGCONT');
    },
    async withoutStream() {
      const masters = await cluster.masters();
      const streams = await Promise.all(masters.map(({ redis }) => redis.keys('svc:reply-frames:*')));
      const free = masters.find((_, index) => streams[index]?.length === 0);
      if (free === undefined) throw new Error('each of three masters has one of two streams');
      return free;
    },
  };
  return load;
}

type Names = ReadonlyMap<ClusterNode, readonly string[]>;

/** Names whose key is on each of these nodes. */
async function namesOn(
  cluster: RedisCluster,
  nodes: readonly ClusterNode[],
  { count, prefix, keyOf }: { count: number; prefix: string; keyOf: (name: string) => string },
): Promise<Names> {
  const names = new Map(nodes.map((node) => [node, [] as string[]]));
  for (let index = 0; [...names.values()].some((own) => own.length < count); index++) {
    const own = names.get(await cluster.holderOf(keyOf(prefix + index)));
    if (own !== undefined && own.length < count) own.push(prefix + index);
  }
  return names;
}

function nodeOf(names: Names, name: string): ClusterNode {
  const [node] = [...names].find(([, own]) => own.includes(name)) ?? [];
  if (node === undefined) throw new Error(`${name} is on no node`);
  return node;
}

type Clients = {
  keys: readonly { key: string; node?: ClusterNode }[];
  models: readonly { name: string; node?: ClusterNode }[];
};

/** One client for each key and model, so that a model that is unavailable does not delay requests for others. */
export function sendFrom(stack: Stack, { keys, models }: Clients): Pick<ClusterLoad, 'timed' | 'stop'> {
  const agent = new Agent({ connections: keys.length * models.length, headersTimeout: 0, bodyTimeout: 0 });
  const timed: TimedRequest[] = [];
  const stopping = new AbortController();

  async function client({ key, node }: Clients['keys'][number], model: Clients['models'][number], number: number) {
    for (let index = 0; !stopping.signal.aborted; index++) {
      const url = stack.ingresses[(number + index) % 2]?.url ?? '';
      const question = `Question ${index} of client ${number}?`;
      const beganAt = performance.now();
      const stream = index % 2 === 0;
      const wish = { url, key, question, stream, includeUsage: stream, model: model.name };
      const asked = await ask(wish, agent);
      timed.push({
        asked,
        beganAt,
        ms: performance.now() - beganAt,
        nodes: [node, model.node].filter((each) => each !== undefined),
      });
      await sleep(asked.ending === 'refused' ? 250 : 100);
    }
  }

  const clients = keys.flatMap((key) => models.map((model) => ({ key, model })));
  const done = Promise.all(clients.map(({ key, model }, number) => client(key, model, number)));
  return {
    timed,
    async stop() {
      stopping.abort();
      await done;
      await agent.destroy();
    },
  };
}

/** The time within which this part of the requests ended, in milliseconds. */
export function percentile(requests: readonly TimedRequest[], part: number): number {
  const sorted = requests.map(({ ms }) => ms).sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
