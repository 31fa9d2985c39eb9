import type { IngressConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { greetStore, openStore } from '../shared/process/open-store.ts';
import { connectForRequests, connectForWork, type Redis } from '../shared/redis/connections.ts';
import type { Store } from '../shared/store/records/store.ts';
import { createIssuerKeys, type IssuerKeys } from './callers/issuer/issuer-keys.ts';

export type Connections = AsyncDisposable & {
  store: Store;
  issuerKeys: IssuerKeys;
  redis: Redis;
  replyRedis: Redis;
  dashboardRedis: Redis;
  /** Opens a connection for blocked reads of a reply stream. The caller closes it. */
  connectReader: () => Redis;
};

/** Opens the connections to the store, to the identity provider and to Redis. Does not wait until Redis answers. */
export async function openConnections(config: IngressConfig, log: Log): Promise<Connections> {
  const owned = new AsyncDisposableStack();
  const adopt = (redis: Redis) => owned.adopt(redis, (connection) => connection.disconnect());
  const store = owned.use(await openStore(config.databaseUrl, { log }));
  void greetStore(store, config.databaseUrl, log); // if it throws, the process ends
  const issuerKeys = owned.use(createIssuerKeys({ issuer: config.signIn.issuer, log }));
  const replySetting = config.replyRedisUrl === config.redisUrl ? 'REDIS_URL' : 'REPLY_REDIS_URL';
  const redis = adopt(connectForRequests(config.redisUrl, log));
  const replyRedis = adopt(connectForRequests(config.replyRedisUrl, log, replySetting));
  const dashboardRedis = adopt(connectForRequests(config.redisUrl, log));
  const connectReader = () => connectForWork(config.replyRedisUrl, log, replySetting);
  return {
    store,
    issuerKeys,
    redis,
    replyRedis,
    dashboardRedis,
    connectReader,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
