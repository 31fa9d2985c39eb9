import type { TestFn } from 'ava';
import { createMongoHome } from './mongo-home.ts';
import { watchCommands } from './sharded-commands.ts';
import { type MongoServer, type NoMongo, startMongo } from './start-mongo.ts';

/**
 * A MongoDB for the tests of one file, stopped after them, and functions to declare tests that need it. Without a MongoDB they are reported
 * as skipped (`startMongo`).
 */
export async function openMongoTests(test: TestFn) {
  const mongo: MongoServer | NoMongo = await startMongo();
  const isThere = 'url' in mongo;
  const listWrong = watchCommands();
  test.after('each command has an index, and on a sharded collection its shard key, or is a known exception', (t) => {
    t.deepEqual(listWrong(), []);
  });
  test.after.always(async () => {
    if (isThere) await mongo[Symbol.asyncDispose]();
  });
  return {
    mongo,
    /** As in `faultTest`. */
    notRun: isThere ? undefined : mongo.reason,
    /** For tests that are declared only if there is one. */
    server(): MongoServer {
      if (isThere) return mongo;
      throw new Error(mongo.reason);
    },
    mongoTest: isThere ? test : test.skip,
    /** For tests with many concurrent calls: run with others, they would measure how long a busy machine takes. */
    mongoTestAlone: isThere ? test.serial : test.serial.skip,
    createHome: () => createMongoHome(mongo),
  };
}
