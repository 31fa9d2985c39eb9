import { type Db, MongoClient, type TopologyDescription } from 'mongodb';
import { z } from 'zod';
import { ApiError } from '../../errors.ts';
import { within } from '../../process/shutdown.ts';
import { storeUnavailable } from '../adapters/store-errors.ts';
import { watchMongoChecks } from './watch-mongo-checks.ts';

type Log = { warn(fields: object, message: string): void };

/**
 * What one call may take in all, whatever the driver still waits for. Each of the driver's own limits is below it, and
 * every one is set: left out, it means 30 s or for ever, and a silent network is noticed by none of the others.
 */
const callMsMax = 5_000;
const clientOptions = {
  serverSelectionTimeoutMS: 2_000,
  connectTimeoutMS: 2_000,
  socketTimeoutMS: 4_000,
  waitQueueTimeoutMS: 2_000,
  maxPoolSize: 20,
  writeConcern: { w: 'majority', wtimeoutMS: 3_000 },
  readPreference: 'primary',
} as const;

/** The database that an address names, and calls to it, each within its deadline. */
export type MongoCalls = AsyncDisposable & {
  database: Db;
  /** As it was last seen: `standalone`, `sharded cluster`, `replica set rs0`. */
  topology(): string;
  /**
   * For whatever an answer is to rest on: what a failover cannot take back. A change that is not yet there is waited for
   * where it matters. A standalone server has nothing to fail over to, and no such reading.
   */
  lasting(): { readConcern: { level: 'majority' | 'local' } };
  /**
   * `work` once the database is prepared, and one failure for whatever the driver, the network or the name service
   * throws. Once the signal is aborted the caller has been told that it failed: nothing more may be written.
   */
  call<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T>;
};

/**
 * Connects and prepares at the first call, so the process starts without the server and finds it when it comes. Throws
 * where the address cannot be understood or names no database.
 */
export function createMongoCalls(
  url: string,
  { log, prepare }: { log: Log; prepare(database: Db): Promise<unknown> },
): MongoCalls {
  // The driver would take one named "test".
  if (!/^[^/]+\/\/[^/?]+\/[^?]/.test(url))
    throw new Error('DATABASE_URL must name a database: mongodb://<host>/<database>.');
  const client = new MongoClient(url, clientOptions);
  const database = client.db();
  const topology = watchTopology(client, log);
  const checks = watchMongoChecks(client, () => performance.now());
  let prepared: Promise<void> | undefined;
  let closed = false;

  const connect = async ({ again }: { again: boolean }) => {
    if (again) await client.close();
    // The driver connects by itself too, but a client whose first attempt failed would then stay closed for ever.
    await client.connect();
    await prepare(database);
  };

  /** At the first call and until it has worked once; callers meanwhile share one attempt. */
  const ready = () => {
    const again = checks.areStuck();
    if (again) {
      checks.forget();
      log.warn({}, 'The MongoDB driver has stopped checking a server: connecting again');
    }
    if (again || prepared === undefined) {
      const attempt = connect({ again }).catch((error) => {
        if (prepared === attempt) prepared = undefined;
        throw error;
      });
      prepared = attempt;
    }
    return prepared;
  };

  /** The second time closes what an attempt to connect may have opened after the first. */
  const close = async () => {
    await client.close();
    await prepared?.catch(() => {});
    await client.close();
  };

  return {
    database,
    topology,
    lasting: () => ({ readConcern: { level: topology() === 'standalone' ? 'local' : 'majority' } }),
    call: (work) =>
      withDeadline(async (signal) => {
        if (closed) throw new Error('the store is closed');
        await ready();
        signal.throwIfAborted();
        return work(signal);
      }),
    /** Gives up waiting for calls that are still under way after as long as a call may take. */
    async [Symbol.asyncDispose]() {
      closed = true;
      await within(callMsMax, close());
    },
  };
}

async function withDeadline<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.abort();
    deadline.reject(new Error(`MongoDB did not answer within ${callMsMax} ms`));
  }, callMsMax);
  try {
    return await Promise.race([work(late.signal), deadline.promise]);
  } catch (error) {
    throw error instanceof ApiError || error instanceof z.ZodError ? error : storeUnavailable(error);
  } finally {
    clearTimeout(timer);
  }
}

function watchTopology(client: MongoClient, log: Log): () => string {
  let topology = 'unknown topology';
  let warned = false;
  client.on('topologyDescriptionChanged', ({ newDescription }) => {
    topology = topologyName(newDescription) ?? topology;
    if (warned || topology !== 'standalone') return;
    warned = true;
    log.warn({}, 'MongoDB is a standalone server: one disk, and no write is retried. Run a replica set in production');
  });
  return () => topology;
}

function topologyName({ servers }: TopologyDescription): string | undefined {
  for (const { type, setName } of servers.values()) {
    if (type === 'Standalone') return 'standalone';
    if (type === 'Mongos') return 'sharded cluster';
    if (setName) return `replica set ${setName}`;
  }
  return undefined;
}
