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
    id: '14d',
    done: 'the store accepts everything and answers nothing for 60 s, under load',
    promised:
      'callers known to the ingress: unaffected; usage waits in Redis, and is in the store once when it is back',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  async (t, see) => {
    t.timeout(240_000);
    await using scene = await openBehindStore(mongo, {
      workers: 2,
      modelServers: { firstTokenMs: 100, tokensPerSecond: 200 },
    });
    await worksWithoutStore(t, see, scene, { mode: 'black hole', forMs: 60_000, isUnavailable: true });
  },
);
