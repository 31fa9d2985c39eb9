import { startJavaServer } from './java-server.ts';
import { hasMongod, startMongod } from './mongod.ts';

/** `url` names no database. Each test uses its own through `databaseUrl`. */
export type MongoServer = AsyncDisposable & { url: string; description: string };

/** The environment variable that describes the server at `MONGODB_URL`, set by a run of all tests that started it. */
export const descriptionVariable = 'MONGODB_DESCRIPTION';

/** Why there is no server here. */
export type NoMongo = { reason: string };

/**
 * A server that speaks the protocol of MongoDB: the one at `MONGODB_URL`, otherwise a `mongod` on the path, otherwise mongo-java-server,
 * which needs Java 17 and Maven. Without any of them, writes the reason to standard error and returns it; with `CI=true` that is a failure.
 */
export async function startMongo(): Promise<MongoServer | NoMongo> {
  const given = process.env.MONGODB_URL;
  if (given !== undefined && given !== '') {
    const description = process.env[descriptionVariable] ?? 'the server at MONGODB_URL';
    return { url: given, description, [Symbol.asyncDispose]: async () => {} };
  }
  if (await hasMongod()) {
    const { url, stop } = await startMongod();
    return { url, description: 'a mongod started here, a replica set of one', [Symbol.asyncDispose]: stop };
  }
  try {
    const { url, process } = await startJavaServer();
    return { url, description: 'mongo-java-server 1.47.0, in memory', [Symbol.asyncDispose]: process.stop };
  } catch (error) {
    const reason = `no MONGODB_URL, no mongod on the path, and no mongo-java-server: ${error}`;
    if (process.env.CI === 'true') throw new Error(`MongoDB is required if CI=true: ${reason}`, { cause: error });
    console.error(`\n*** TESTS AGAINST MONGODB ARE SKIPPED: ${reason}\n`);
    return { reason };
  }
}

/** The same server, with this database. */
export function databaseUrl(url: string, database: string): string {
  return rewrite(url, ({ scheme, hosts, query }) => `${scheme}${hosts}/${database}${query}`);
}

/** The same database through `port` on this machine only, regardless of the addresses that the server reports. */
export function urlThrough(port: number, url: string): string {
  return rewrite(url, ({ scheme, credentials, database, query }) => {
    const options = new URLSearchParams(query);
    options.delete('replicaSet');
    options.set('directConnection', 'true');
    return `${scheme}${credentials}127.0.0.1:${port}/${database}?${options}`;
  });
}

type UrlParts = { scheme: string; credentials: string; hosts: string; database: string; query: string };

function rewrite(url: string, write: (parts: UrlParts) => string): string {
  const match = /^(mongodb(?:\+srv)?:\/\/)([^/?@]*@)?([^/?]+)(?:\/([^?]*))?(\?.*)?$/.exec(url);
  if (match === null) throw new Error('MONGODB_URL must be mongodb://<host>');
  const [, scheme = '', credentials = '', hosts = '', database = '', query = ''] = match;
  return write({ scheme, credentials, hosts: credentials + hosts, database, query });
}
