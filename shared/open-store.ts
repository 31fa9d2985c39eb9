import { ApiError } from './errors.ts';
import { RefusedSchema } from './store/adapters/store-errors.ts';
import { SqliteStore } from './store/sqlite/sqlite-store.ts';
import type { Store } from './store/store.ts';

type Log = { info(fields: object, message: string): void; warn(fields: object, message: string): void };

/**
 * Opens the store at this `DATABASE_URL`. `mongodb://` and `mongodb+srv://` name a database and connect at the first call, so a process
 * also starts while the server is down. `sqlite:<file>` is opened now. Throws an error for the operator, which never contains the URL: it
 * can hold a password.
 */
export async function openStore(url: string, { log }: { log: Pick<Log, 'warn'> }): Promise<Store> {
  if (/^mongodb(\+srv)?:\/\//.test(url)) {
    // Loading the driver takes 0.2 s, which a process on SQLite saves.
    const { MongoStore } = await import('./store/mongo/mongo-store.ts');
    return new MongoStore(url, { log });
  }
  const file = /^sqlite:(?!\/\/)(.+)$/.exec(url)?.[1];
  if (file === ':memory:') throw new Error('DATABASE_URL must name a file: a store in memory would lose every key.');
  if (file !== undefined) return SqliteStore.open(file);
  throw new Error(
    'DATABASE_URL must be mongodb://<host>/<database>, mongodb+srv://<host>/<database> or sqlite:<file>.',
  );
}

/**
 * Makes the first call, which prepares the store, and logs the store's description. If the store is unavailable, logs that and does not
 * wait for it. Throws if the store has another schema: the process must end.
 */
export async function greetStore(store: Store, log: Log): Promise<void> {
  try {
    log.info({ store: await store.describe() }, 'the store is reachable');
  } catch (error) {
    if (error instanceof ApiError && error.cause instanceof RefusedSchema) throw error.cause;
    log.warn({ err: error }, 'the store is unreachable; the next call retries');
  }
}
