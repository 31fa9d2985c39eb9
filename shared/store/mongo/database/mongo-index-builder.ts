import { MongoClient, type MongoClientOptions } from 'mongodb';
import { type CollectionIndexes, createIndexes } from './mongo-indexes.ts';

type Log = { warn(fields: object, message: string): void };

/**
 * Builds indexes of large collections in the background. A server stops a build whose client disconnects, so its connections have no
 * time-out for answers. Several processes may start the same build: the server makes it once.
 */
export function createIndexBuilder({
  url,
  options,
  log,
}: {
  url: string;
  options: MongoClientOptions;
  log: Log;
}): AsyncDisposable & { start(large: readonly CollectionIndexes[]): void } {
  let client: MongoClient | undefined;

  async function build(opened: MongoClient, large: readonly CollectionIndexes[]): Promise<void> {
    for (const collection of large) {
      const names = collection.indexes.map(({ name }) => `${collection.collection}.${name}`);
      log.warn(
        { indexes: names },
        'indexes of a large collection are being built; calls that need them are slow until then',
      );
      const refused = await createIndexes(opened.db(), collection);
      if (refused.length > 0) log.warn({ indexes: refused }, 'MongoDB refused indexes; calls that need them are slow');
      else log.warn({ indexes: names }, 'the indexes were built');
    }
  }

  return {
    /** Does nothing while a build is in progress. */
    start(large) {
      if (large.length === 0 || client !== undefined) return;
      const opened = new MongoClient(url, {
        ...options,
        socketTimeoutMS: 0,
        maxPoolSize: 1,
        writeConcern: { w: 'majority' },
      });
      client = opened;
      build(opened, large)
        .catch((error: unknown) => {
          // Also when the process ends. The next process that starts tries again.
          if (client === opened) log.warn({ err: error }, 'indexes could not be built');
        })
        .finally(async () => {
          if (client === opened) client = undefined;
          await opened.close();
        });
    },
    async [Symbol.asyncDispose]() {
      const opened = client;
      client = undefined;
      await opened?.close();
    },
  };
}
