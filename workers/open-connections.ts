import type { Redis } from 'ioredis';
import type { Agent } from 'undici';
import { greetStore, openStore } from '../shared/open-store.ts';
import type { WorkerConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { connectForWork } from '../shared/redis/connections.ts';
import type { Store } from '../shared/store/store.ts';
import { createBackendAgent } from './exchange/call-backend.ts';

/** `oneConnection`: replies use the same connection to Redis as everything else. */
export type Connections = AsyncDisposable & {
  store: Store;
  redis: Redis;
  replyRedis: Redis;
  oneConnection: boolean;
  /** For blocked reads of the control stream, and of the markers of queues. */
  controlReader: Redis;
  jobReader: Redis;
  agent: Agent;
};

/** Opens the connections to the store, to Redis and to the backends. Does not wait until Redis answers. */
export async function openConnections(config: WorkerConfig, log: Log): Promise<Connections> {
  const owned = new AsyncDisposableStack();
  const connect = (url: string) => owned.adopt(connectForWork(url, log), (connection) => connection.disconnect());
  const store = owned.use(await openStore(config.databaseUrl, { log }));
  void greetStore(store, log);
  const redis = connect(config.redisUrl);
  const oneConnection = config.replyRedisUrl === config.redisUrl;
  const replyRedis = oneConnection ? redis : connect(config.replyRedisUrl);
  const controlReader = connect(config.replyRedisUrl);
  const jobReader = connect(config.redisUrl);
  const agent = owned.adopt(createBackendAgent(config.planFile.timeouts), (opened) => opened.destroy());
  return {
    ...{ store, redis, replyRedis, oneConnection, controlReader, jobReader, agent },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
