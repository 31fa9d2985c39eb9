import { ApiError } from '../errors.ts';
import { RefusedStore } from '../store/documents.ts';
import type { Store } from '../store/records/store.ts';
import { openSqliteStore } from '../store/sqlite/sqlite-store.ts';
import { reasonOf, StartError, serversIn } from './start-error.ts';

type Log = { info(fields: object, message: string): void; warn(fields: object, message: string): void };

/**
 * Opens the store at this `DATABASE_URL`. `mongodb://` and `mongodb+srv://` name a database and connect at the first call, so a process
 * also starts while the server is down. `sqlite:<file>` is opened now. Throws `StartError`, which never contains the URL: it can hold a
 * password.
 */
export async function openStore(url: string, { log }: { log: Pick<Log, 'warn'> }): Promise<Store> {
  try {
    return await open(url, log);
  } catch (error) {
    throw new StartError(`DATABASE_URL: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

async function open(url: string, log: Pick<Log, 'warn'>): Promise<Store> {
  if (/^mongodb(\+srv)?:\/\//.test(url)) {
    // Loading the driver takes 0.2 s, which a process on SQLite saves.
    const { openMongoStore } = await import('../store/mongo/mongo-store.ts');
    return openMongoStore(url, { log });
  }
  const file = /^sqlite:(?!\/\/)(.+)$/.exec(url)?.[1];
  if (file === ':memory:') throw new Error('it must name a file, because a store in memory would lose every key.');
  if (file !== undefined) return openSqliteStore(file);
  throw new Error('it must be mongodb://<host>/<database>, mongodb+srv://<host>/<database> or sqlite:<file>.');
}

/**
 * Makes the first call, which prepares the store, and logs the store's description. If the store is unavailable, logs that and does not
 * wait for it. Throws `StartError` if it refuses the user or the password, has another schema, or does not update documents atomically,
 * which waiting cannot change: the process must end.
 */
export async function greetStore(store: Pick<Store, 'describe'>, url: string, log: Log): Promise<void> {
  try {
    log.info({ store: await store.describe() }, 'the store is reachable');
  } catch (error) {
    const where = `DATABASE_URL: the store${url.startsWith('sqlite:') ? '' : ` at ${serversIn(url)}`}`;
    if (error instanceof ApiError && error.cause instanceof RefusedStore) {
      throw new StartError(`${where}: ${error.cause.message}`, { cause: error });
    }
    if (isRefusedUser(error)) {
      throw new StartError(`${where} refuses the user or the password. Correct DATABASE_URL.`, { cause: error });
    }
    log.warn(
      {},
      `${where} cannot be used (${reasonOf(error)}); the next call retries. Start it, or correct the setting`,
    );
  }
}

/** MongoDB's codes: 18 is `AuthenticationFailed`, 8000 the same of Atlas. */
function isRefusedUser(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as Error & { code?: unknown }; // most errors have no code
  return code === 18 || code === 8_000 || isRefusedUser(error.cause);
}
