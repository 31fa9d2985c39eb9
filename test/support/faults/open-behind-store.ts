import { type Stack, type StackOptions, startStack } from '../../stack/stack.ts';
import { createMongoHome } from '../mongodb/mongo-home.ts';
import { type MongoServer, type NoMongo, urlThrough } from '../mongodb/start-mongo.ts';
import type { TcpProxy } from '../tcp-proxy.ts';
import { openWitnesses, type Witnesses } from '../truth/open-witnesses.ts';

export interface BehindStore extends AsyncDisposable {
  stack: Stack;
  /** The only path of ingresses and workers to MongoDB. */
  proxy: TcpProxy;
  /** Their own path, without the proxy. */
  witnesses: Witnesses;
}

/** The complete service, with a proxy between it and its MongoDB, in which it has its own database. */
export async function openBehindStore(mongo: MongoServer | NoMongo, options: StackOptions): Promise<BehindStore> {
  await using parts = new AsyncDisposableStack();
  const home = parts.use(await createMongoHome(mongo));
  const proxy = parts.use(await home.startProxy('pass'));
  const stack = parts.use(await startStack({ ...options, databaseUrl: urlThrough(proxy.port, home.url) }));
  const witnesses = parts.use(await openWitnesses(stack, { databaseUrl: home.url }));
  const owned = parts.move();
  return { stack, proxy, witnesses, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
