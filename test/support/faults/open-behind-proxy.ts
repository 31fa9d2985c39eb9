import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../stack/redis-server.ts';
import { type Stack, type StackOptions, startStack } from '../../stack/stack.ts';
import { addressIn, startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';
import { openWitnesses, type Witnesses } from '../truth/open-witnesses.ts';

export interface BehindProxy extends AsyncDisposable {
  stack: Stack;
  redis: RedisServer;
  /** The only path of ingresses and workers to Redis. */
  proxy: TcpProxy;
  /** Their own path, without the proxy. */
  witnesses: Witnesses;
}

/** The complete service, with a proxy between it and its Redis. */
export async function openBehindProxy(options: StackOptions = {}): Promise<BehindProxy> {
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'behind-proxy-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const redis = parts.use(await startRedis({ directory }));
  const proxy = parts.use(await startTcpProxy(addressIn(redis.url)));
  const env = { ...options.env, REDIS_URL: `redis://127.0.0.1:${proxy.port}` };
  const stack = parts.use(await startStack({ ...options, redisUrl: redis.url, env }));
  const witnesses = parts.use(await openWitnesses(stack));
  const owned = parts.move();
  return { stack, redis, proxy, witnesses, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
