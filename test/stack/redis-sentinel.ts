import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { lookUntil } from './cluster-nodes.ts';
import { type RedisServer, type RedisSettings, startRedis } from './redis-server.ts';

/** How long the master may be silent until sentinels agree that it is dead. */
export const masterTimeoutMs = 2_000;

const masterName = 'main';
const sentinelFile = 'sentinel.conf';
/** Otherwise a master waits five seconds for further replicas. */
const quickSync = { 'repl-diskless-sync-delay': '0' };
const sentinelCount = 3;
const quorum = 2;

export interface RedisSentinel extends AsyncDisposable {
  /** Names the sentinels and the master. */
  readonly url: string;
  readonly sentinels: readonly RedisServer[];
  /** The first one was the master at the start. */
  readonly servers: readonly RedisServer[];
  /** The server that most sentinels call the master. */
  master(): Promise<RedisServer>;
  /** Waits until another server is the master and accepts writes. */
  untilReplaced(old: RedisServer): Promise<RedisServer>;
}

type Options = {
  directory: string;
  settings?: RedisSettings;
  /** Further lines of the configuration of each sentinel. */
  sentinelLines?: readonly string[];
};

/**
 * A master, its replica, and three sentinels. Resolves when the sentinels know each other and the replica, so that they can replace the
 * master.
 */
export async function startRedisSentinel({
  directory,
  settings = {},
  sentinelLines = [],
}: Options): Promise<RedisSentinel> {
  await using parts = new AsyncDisposableStack();
  const start = async (name: string, own: RedisSettings) =>
    parts.use(await startRedis({ directory: join(directory, name), settings: { ...quickSync, ...settings, ...own } }));
  const first = await start('server-0', {});
  const second = await start('server-1', { replicaof: `127.0.0.1 ${first.port}` });
  const servers = [first, second];
  // Sentinels ask a master for its replicas at once, and then only every ten seconds.
  await lookUntil('the replica follows', async () => (await roleOf(first)).replicas === 1);
  const sentinels = await Promise.all(
    Array.from({ length: sentinelCount }, async (_, number) =>
      parts.use(
        await startSentinel(join(directory, `sentinel-${number}`), { masterPort: first.port, further: sentinelLines }),
      ),
    ),
  );
  const asked = sentinels.map(({ port }) =>
    parts.adopt(new Redis({ port, host: '127.0.0.1' }), (one) => one.disconnect()),
  );
  for (const one of asked) one.on('error', () => {}); // tests may kill a sentinel

  async function master(): Promise<RedisServer> {
    const answers = await Promise.all(asked.map((one) => one.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName)));
    const ports = answers.map((answer) => Number((answer as string[])[1])); // the documented form: host and port
    const named = servers.find(({ port }) => ports.filter((each) => each === port).length >= quorum);
    if (named === undefined) throw new Error('the sentinels do not agree about the master');
    return named;
  }

  await lookUntil('the sentinels know each other and the replica', async () => {
    const infos = await Promise.all(asked.map((one) => one.info('sentinel')));
    return infos.every((info) => info.includes(`status=ok`) && info.includes(`slaves=1,sentinels=${sentinelCount}`));
  });
  const owned = parts.move();
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${masterName}`,
    ...{ sentinels, servers, master },
    async untilReplaced(old) {
      let replaced = old;
      await lookUntil('the master is replaced', async () => {
        replaced = await master();
        return replaced !== old && (await roleOf(replaced)).role === 'master';
      });
      return replaced;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startSentinel(
  directory: string,
  { masterPort, further }: { masterPort: number; further: readonly string[] },
): Promise<RedisServer> {
  await mkdir(directory, { recursive: true });
  const lines = [
    `sentinel monitor ${masterName} 127.0.0.1 ${masterPort} ${quorum}`,
    `sentinel down-after-milliseconds ${masterName} ${masterTimeoutMs}`,
    `sentinel failover-timeout ${masterName} 10000`,
    ...further,
  ];
  await writeFile(join(directory, sentinelFile), `${lines.join('\n')}\n`);
  return startRedis({ directory, sentinelFile });
}

async function roleOf({ port }: RedisServer): Promise<{ role: string; replicas: number }> {
  const redis = new Redis({ port, host: '127.0.0.1', retryStrategy: null });
  redis.on('error', () => {}); // the failed call says the same
  try {
    const [role, , replicas] = (await redis.call('ROLE')) as [string, number, unknown]; // of a master, as documented
    return { role, replicas: Array.isArray(replicas) ? replicas.length : 0 };
  } finally {
    redis.disconnect();
  }
}
