import { startRedisCluster } from './redis-cluster.ts';
import { startRedis } from './redis-server.ts';
import { redisVariable } from './redis-variable.ts';

/** The Redis of a stack: one server, or a cluster. What is done to it is done to all of its nodes. */
export interface StackRedis extends AsyncDisposable {
  readonly url: string;
  readonly pids: readonly number[];
  stop(): Promise<void>;
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Resolves when all of its keys can be used again. */
  restart(): Promise<void>;
}

export function startStackRedis(directory: string): Promise<StackRedis> {
  return process.env[redisVariable] === 'cluster' ? startCluster(directory) : startOne(directory);
}

async function startOne(directory: string): Promise<StackRedis> {
  const server = await startRedis({ directory });
  const { url, stop, kill, restart } = server;
  return {
    ...{ url, stop, kill, restart },
    [Symbol.asyncDispose]: stop,
    get pids() {
      return [server.pid];
    },
  };
}

/** Without replicas, which cost processor time and change nothing that a client sees. */
async function startCluster(directory: string): Promise<StackRedis> {
  const cluster = await startRedisCluster({ directory, replicasEach: 0 });
  const { nodes } = cluster;
  const all = async (act: (node: (typeof nodes)[number]) => Promise<void>) => void (await Promise.all(nodes.map(act)));
  return {
    url: cluster.url,
    get pids() {
      return nodes.map(({ pid }) => pid);
    },
    stop: () => all((node) => node.stop()),
    kill: (signal) => all((node) => node.kill(signal)),
    async restart() {
      await all((node) => node.restart());
      await cluster.untilWhole();
    },
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}
