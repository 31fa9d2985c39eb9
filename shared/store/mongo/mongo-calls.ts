import { type Db, MongoClient, type TopologyDescription } from 'mongodb';
import { z } from 'zod';
import { within } from '../../concurrency/shutdown.ts';
import { ApiError } from '../../errors.ts';
import { storeUnavailable } from '../documents.ts';
import {
  type CollectionIndexes,
  checkAtomicUpdates,
  checkSchema,
  createIndexBuilder,
  prepareIndexes,
} from './mongo-indexes.ts';

type Log = { warn(fields: object, message: string): void };

/** The database in a connection string, and calls to it, each with a deadline. */
export type MongoCalls = AsyncDisposable & {
  database: Db;
  /** The topology as it was last seen: `standalone`, `sharded cluster`, `replica set rs0`. */
  topology(): string;
  /**
   * The read concern for data that an answer depends on: a failover cannot undo it. Callers that need a change that is not yet durable wait
   * for it. A standalone server has no failover, and no such read concern.
   */
  durable(): { readConcern: { level: 'majority' | 'local' } };
  /**
   * Runs `work` once the database is prepared. Every error of the driver, the network or DNS becomes the same failure. Once the signal is
   * aborted, the caller has received a failure: nothing more may be written.
   */
  call<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T>;
};

/**
 * Connects and prepares at the first call, so that the process starts without the server and uses it when it is available. A store with
 * another schema is not changed: each call fails. Throws if the URL is invalid, names no database, or has an option that cannot be used.
 */
export function createMongoCalls(
  url: string,
  { log, indexes, limits = usualLimits }: { log: Log; indexes: readonly CollectionIndexes[]; limits?: MongoLimits },
): MongoCalls {
  // The driver would use a database named "test".
  if (!/^[^/]+\/\/[^/?]+\/[^?]/.test(url)) throw new Error('it must name a database: mongodb://<host>/<database>.');
  const clientOptions = clientOptionsFor(url, limits);
  const client = new MongoClient(url, clientOptions);
  const database = client.db();
  const topology = watchTopology(client, log);
  const checks = watchMongoChecks(client, () => performance.now());
  const builder = createIndexBuilder({ url, options: clientOptions, log });
  let isAtomic = false;
  let prepared: Promise<void> | undefined;
  let closed = false;

  const prepare = async () => {
    await checkSchema(database);
    if (!isAtomic) await checkAtomicUpdates(database);
    isAtomic = true;
    const { refused, large } = await prepareIndexes(database, indexes);
    if (refused.length > 0) log.warn({ indexes: refused }, 'MongoDB refused indexes; calls that need them are slow');
    builder.start(large);
  };

  const connect = async ({ again }: { again: boolean }) => {
    if (again) await client.close();
    // The driver also connects automatically, but a client whose first attempt failed would then remain closed.
    await client.connect();
    await prepare();
  };

  /** Prepares at the first call, and again until it succeeds. Concurrent callers share one attempt. */
  const ready = () => {
    const again = checks.areStuck();
    if (again) {
      checks.forget();
      log.warn({}, 'the MongoDB driver has stopped checking a server; reconnecting');
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

  /** The second close covers connections that a pending attempt may have opened after the first. */
  const close = async () => {
    await client.close();
    await prepared?.catch(() => {});
    await client.close();
    await builder[Symbol.asyncDispose]();
  };

  return {
    database,
    topology,
    durable: () => ({ readConcern: { level: topology() === 'standalone' ? 'local' : 'majority' } }),
    call: (work) =>
      withDeadline(limits.callMs, async (signal) => {
        if (closed) throw new Error('the store is closed');
        await ready();
        signal.throwIfAborted();
        return work(signal);
      }),
    /** Stops waiting for calls in progress after the maximum duration of a call. */
    async [Symbol.asyncDispose]() {
      closed = true;
      await within(limits.callMs, close());
    },
  };
}

async function withDeadline<T>(callMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.abort();
    deadline.reject(new Error(`MongoDB did not answer within ${callMs} ms`));
  }, callMs);
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
    log.warn(
      {},
      'MongoDB is a standalone server: one disk, and writes are not retried. Run a replica set in production',
    );
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

/**
 * The longest duration of a check of a server. Each check has the client's timeouts (`mongo-calls.ts`); a check that the server answers
 * only when its state changes takes ten seconds more.
 */
const checkMsMax = { plain: 6_000, awaited: 15_000 };

/**
 * The driver checks each server repeatedly, and a call waits for the result of the last check. If the connection is lost in the moment
 * before the check is written to it, the driver (7.9 and earlier) waits forever for that socket to drain, and no call succeeds again
 * (decisions.md#mongodb-s-own-limits-set-and-one-of-ours).
 */
export function watchMongoChecks(client: Pick<MongoClient, 'on'>, now: () => number) {
  /** The time by which each unfinished check must have ended, by server. */
  const late = new Map<string, number>();
  client.on('serverHeartbeatStarted', ({ connectionId, awaited }) =>
    late.set(connectionId, now() + (awaited ? checkMsMax.awaited : checkMsMax.plain)),
  );
  const ended = ({ connectionId }: { connectionId: string }) => late.delete(connectionId);
  client.on('serverHeartbeatSucceeded', ended);
  client.on('serverHeartbeatFailed', ended);
  client.on('serverClosed', ({ address }) => late.delete(address));
  return {
    /** Returns whether a check of any server is overdue. */
    areStuck: () => [...late.values()].some((at) => at < now()),
    /** To be called before the client connects again. */
    forget: () => late.clear(),
  };
}

/**
 * `callMs`: deadline of one call in total, no matter what the driver still waits for. `serverMs` (for a server, and for a connection),
 * `socketMs` and `writeMs` are the driver's own limits, each below it.
 */
type MongoLimits = { callMs: number; serverMs: number; socketMs: number; writeMs: number };

/**
 * All are set, because the driver's defaults are 30 s or unlimited, and no single limit detects a silent network in all cases
 * (contract.md#r7-mongodb-safety, decisions.md#mongodb-s-own-limits-set-and-one-of-ours).
 */
export const usualLimits: MongoLimits = { callMs: 5_000, serverMs: 2_000, socketMs: 4_000, writeMs: 3_000 };

const connectionsMax = 20;
/** With fewer, the check whether updates are atomic would send them one after another. */
const connectionsMin = 8;

/**
 * The options of a client for this connection string. Those of the string that are not named here pass as they are, and so does
 * `maxPoolSize`. One that the service sets itself is accepted with the same value; with another one it throws, because the driver would
 * ignore it (contract.md#pa3-kinds-of-stores).
 */
export function clientOptionsFor(url: string, { serverMs, socketMs, writeMs }: MongoLimits) {
  const times = {
    serverSelectionTimeoutMS: serverMs,
    connectTimeoutMS: serverMs,
    socketTimeoutMS: socketMs,
    waitQueueTimeoutMS: serverMs,
  };
  const given = optionsIn(url);
  const writes = { w: 'majority', wtimeoutMS: writeMs, wtimeout: writeMs, journal: true, j: true };
  for (const [name, ours] of Object.entries({ ...times, ...writes, readPreference: 'primary' })) {
    const theirs = given.get(name.toLowerCase()) ?? String(ours);
    if (theirs.toLowerCase() !== String(ours))
      throw new Error(`its option ${name}=${theirs} cannot be used, because the service needs ${ours}. Remove it.`);
  }
  const connections = Number(given.get('maxpoolsize') ?? connectionsMax);
  if (connections > 0 && connections < connectionsMin)
    throw new Error(
      `its option maxPoolSize=${connections} cannot be used, because the service needs at least ${connectionsMin}.`,
    );
  if (given.has('timeoutms')) throw new Error('its option timeoutMS has no effect in this driver. Remove it.');
  return {
    ...times,
    ...(!given.has('maxpoolsize') && { maxPoolSize: connectionsMax }),
    writeConcern: { w: 'majority', wtimeoutMS: writeMs, journal: true },
    readPreference: 'primary',
  } as const;
}

/** The options of a connection string, by their names in lower case: the driver reads them in any case. */
function optionsIn(url: string): Map<string, string> {
  const options = new URLSearchParams(url.split('?').slice(1).join('?'));
  return new Map(Array.from(options, ([name, value]) => [name.toLowerCase(), value]));
}
