import type { TestFn } from 'ava';
import { createMongoHome } from './mongo-home.ts';
import { type MongoServer, type NoMongo, startMongo } from './start-mongo.ts';

/**
 * A MongoDB for the tests of one file, ended after them, and the ways to declare those that need it: where there is none, they
 * are reported as skipped (`startMongo`).
 */
export async function openMongoTests(test: TestFn) {
  const mongo: MongoServer | NoMongo = await startMongo();
  const isThere = 'url' in mongo;
  test.after.always(async () => {
    if (isThere) await mongo[Symbol.asyncDispose]();
  });
  return {
    mongo,
    /** As `faultTest` has it. */
    notRun: isThere ? undefined : mongo.reason,
    /** For tests that are declared only where there is one. */
    server(): MongoServer {
      if (isThere) return mongo;
      throw new Error(mongo.reason);
    },
    mongoTest: isThere ? test : test.skip,
    /** For what makes many calls at once: beside the others, it would prove how long a busy machine takes. */
    mongoTestAlone: isThere ? test.serial : test.serial.skip,
    createHome: () => createMongoHome(mongo),
  };
}
