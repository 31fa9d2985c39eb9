import { type AskBackend, createAskBackend } from '../shared/fleet/ask-backend.ts';
import { type BackendAgents, createBackendAgents } from '../shared/fleet/backend-agents.ts';
import { type BackendKeys, followBackendKeys } from '../shared/fleet/backend-keys.ts';
import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import type { WorkerConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { greetStore, openStore } from '../shared/process/open-store.ts';
import { connectForRequests, connectForWork, type Redis } from '../shared/redis/connections.ts';
import type { Store } from '../shared/store/records/store.ts';
import { type BackendChecks, createBackendChecks } from './backends/ask-backends.ts';

/** `oneConnection`: replies use the same connection to Redis as everything else, so commands arrive in the order in which they are sent. */
export type Connections = AsyncDisposable & {
  store: Store;
  redis: Redis;
  /**
   * For regular work on keys of all nodes of a cluster. While one is unavailable, a call to it fails, so that the work on the others
   * continues. Without a cluster, the same as `redis`.
   */
  upkeepRedis: Redis;
  replyRedis: Redis;
  /** The same for replies and control streams. */
  replyUpkeepRedis: Redis;
  oneConnection: boolean;
  /** Opens a connection for blocked reads of the control stream. The caller closes it. */
  connectControlReader: () => Redis;
  /** The same for the markers of queues. */
  connectJobReader: () => Redis;
  agents: BackendAgents;
  keys: BackendKeys;
  ask: AskBackend;
  checks: BackendChecks;
};

/** Opens the connections to the store, to Redis and to the backends. Does not wait until Redis answers. */
export async function openConnections({
  config,
  currentPlanFile,
  log,
}: {
  config: WorkerConfig;
  currentPlanFile: () => PlanFile;
  log: Log;
}): Promise<Connections> {
  const owned = new AsyncDisposableStack();
  const adopt = (connection: Redis) => owned.adopt(connection, (adopted) => adopted.disconnect());
  const settingOf = (url: string) => (url === config.redisUrl ? 'REDIS_URL' : 'REPLY_REDIS_URL');
  const connect = (url: string) => adopt(connectForWork(url, log, settingOf(url)));
  const store = owned.use(await openStore(config.databaseUrl, { log }));
  void greetStore(store, config.databaseUrl, log); // if it throws, the process ends
  const redis = connect(config.redisUrl);
  const upkeepFor = (connection: Redis, url: string) =>
    connection.isCluster ? adopt(connectForRequests(url, log, settingOf(url))) : connection;
  const upkeepRedis = upkeepFor(redis, config.redisUrl);
  const isSame = config.replyRedisUrl === config.redisUrl;
  const replyRedis = isSame ? redis : connect(config.replyRedisUrl);
  const replyUpkeepRedis = isSame ? upkeepRedis : upkeepFor(replyRedis, config.replyRedisUrl);
  const oneConnection = isSame && !redis.isCluster;
  const connectControlReader = () => connectForWork(config.replyRedisUrl, log, settingOf(config.replyRedisUrl));
  const connectJobReader = () => connectForWork(config.redisUrl, log);
  const agents = owned.use(
    createBackendAgents({
      connectMs: () => currentPlanFile().timeouts.connectMs,
      onUnreadable: (files, err) =>
        log.error({ err, ...files }, 'the certificates of a backend cannot be used; the earlier ones stay in use'),
    }),
  );
  const keys = owned.use(
    followBackendKeys({
      variableOf: config.variableOf,
      backends: () => currentPlanFile().backends,
      onUnreadable: (file, err) =>
        log.error({ err, file }, 'the file of an API key cannot be used; the earlier key stays in use'),
    }),
  );
  const ask = createAskBackend({ agents, keys });
  return {
    store,
    redis,
    upkeepRedis,
    replyRedis,
    replyUpkeepRedis,
    oneConnection,
    connectControlReader,
    connectJobReader,
    agents,
    keys,
    ask,
    checks: createBackendChecks({ ask, backends: () => currentPlanFile().backends }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
