import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { startRedisCluster } from './redis-cluster.ts';
import { allRights, clusterRights, serviceUser, userSetting } from './redis-rights.ts';
import { startRedis } from './redis-server.ts';
import { redisVariable } from './redis-variable.ts';

/** The Redis of a stack: one server, or a cluster. What is done to it is done to all of its nodes. */
export interface StackRedis extends AsyncDisposable {
  /** For tests, which may do everything. */
  readonly url: string;
  /** For the service, whose user has only the rights that it needs. */
  readonly serviceUrl: string;
  readonly pids: readonly number[];
  stop(): Promise<void>;
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Resolves when all of its keys can be used again. */
  restart(): Promise<void>;
}

/** `isCluster`: three masters. Its end fails if a right was missing. */
export function startStackRedis(
  directory: string,
  { isCluster = process.env[redisVariable] === 'cluster' }: { isCluster?: boolean } = {},
): Promise<StackRedis> {
  return isCluster ? startCluster(directory) : startOne(directory);
}

async function startOne(directory: string): Promise<StackRedis> {
  const password = randomBytes(16).toString('hex');
  const server = await startRedis({ directory, settings: { user: userSetting(allRights, password) } });
  const { url, stop, kill, restart } = server;
  return {
    ...{ url, stop, kill, restart, serviceUrl: withUser(url, password) },
    async [Symbol.asyncDispose]() {
      await using _server = { [Symbol.asyncDispose]: stop };
      await requireRights([server.port]);
    },
    get pids() {
      return [server.pid];
    },
  };
}

/** Without replicas, which cost processor time and change nothing that a client sees. */
async function startCluster(directory: string): Promise<StackRedis> {
  const password = randomBytes(16).toString('hex');
  const user = userSetting([...allRights, ...clusterRights], password);
  const cluster = await startRedisCluster({ directory, replicasEach: 0, settings: { user } });
  const { nodes } = cluster;
  const all = async (act: (node: (typeof nodes)[number]) => Promise<void>) => void (await Promise.all(nodes.map(act)));
  return {
    ...{ url: cluster.url, serviceUrl: withUser(cluster.url, password) },
    get pids() {
      return nodes.map(({ pid }) => pid);
    },
    stop: () => all((node) => node.stop()),
    kill: (signal) => all((node) => node.kill(signal)),
    async restart() {
      await all((node) => node.restart());
      await cluster.untilWhole();
    },
    async [Symbol.asyncDispose]() {
      await using _cluster = cluster;
      await requireRights(nodes.map(({ port }) => port));
    },
  };
}

function withUser(url: string, password: string): string {
  return url.replace('://', `://${serviceUser}:${password}@`);
}

/**
 * Throws if a server has refused the service a command or a key. One that does not run any more is not asked. A wrong password is no
 * missing right: a process of another stack may have had its Redis at this port before.
 */
async function requireRights(ports: readonly number[]): Promise<void> {
  const refusals = (await Promise.all(ports.map((port) => refusalsOf(port)))).flat();
  const rights = refusals.filter((refusal) => !refusal.startsWith('auth '));
  if (rights.length > 0) throw new Error(`Redis refused the service: ${[...new Set(rights)].join(', ')}`);
}

/** What this server has refused to these users since it started. */
export async function refusalsOf(port: number, users: readonly string[] = [serviceUser]): Promise<string[]> {
  const redis = new Redis({
    port,
    host: '127.0.0.1',
    retryStrategy: null,
    maxRetriesPerRequest: 0,
    commandTimeout: 1_000,
  });
  redis.on('error', () => {}); // tests kill it
  try {
    const entries = (await redis.acl('LOG')) as unknown as string[][]; // names and values in turn, as documented
    const fields = entries.map((entry) => new Map(entry.map((name, index) => [name, entry[index + 1]])));
    const ofService = fields.filter((entry) => users.includes(entry.get('username') ?? ''));
    return ofService.map((entry) => `${entry.get('reason')} ${entry.get('object')}`);
  } catch {
    return [];
  } finally {
    redis.disconnect();
  }
}
