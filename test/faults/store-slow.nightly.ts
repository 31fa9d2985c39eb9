import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { openBehindStore } from '../support/faults/open-behind-store.ts';
import { worksWithoutStore } from '../support/faults/without-store.ts';
import { startMongo } from '../support/mongodb/start-mongo.ts';

const mongo = await startMongo();
test.after.always(async () => {
  if ('url' in mongo) await mongo[Symbol.asyncDispose]();
});

faultTest(
  test,
  {
    id: '14e',
    done: 'the store is slow: 300 ms delay each way, for 5 s',
    promised: 'no request waits for it; usage is in the store, once',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  async (t, see) => {
    t.timeout(90_000);
    await using scene = await openBehindStore(mongo, { workers: 2 });
    await worksWithoutStore(t, see, scene, { mode: { slowMs: 300 }, forMs: 5_000, isUnavailable: false });
  },
);
