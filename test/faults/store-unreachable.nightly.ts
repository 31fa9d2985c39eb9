import test from 'ava';
import { faultTest } from '../support/faults/fault-test.ts';
import { type BehindStore, openBehindStore } from '../support/faults/open-behind-store.ts';
import { worksWithoutStore } from '../support/faults/without-store.ts';
import { startMongo } from '../support/mongodb/start-mongo.ts';

const mongo = await startMongo();
const notRun = 'reason' in mongo ? mongo.reason : undefined;
let scene: BehindStore;

test.before(async () => {
  if ('url' in mongo)
    scene = await openBehindStore(mongo, { workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 200 } });
});
test.after.always(async () => {
  await scene?.[Symbol.asyncDispose]();
  if ('url' in mongo) await mongo[Symbol.asyncDispose]();
});

for (const { outage, ...fault } of [
  {
    id: '14d',
    done: 'the store accepts everything and answers nothing for 60 s, under load',
    promised:
      'callers known to the ingress: unaffected; usage waits in Redis, and is in the store once when it is back',
    outage: { mode: 'black hole' as const, forMs: 60_000, isUnavailable: true },
  },
  {
    id: '14e',
    done: 'the store is slow: 300 ms delay each way, for 5 s',
    promised: 'no request waits for it; usage is in the store, once',
    outage: { mode: { slowMs: 300 }, forMs: 5_000, isUnavailable: false },
  },
]) {
  faultTest(test.serial, { ...fault, notRun }, async (t, see) => {
    t.timeout(240_000);
    await worksWithoutStore(t, see, scene, outage);
  });
}
