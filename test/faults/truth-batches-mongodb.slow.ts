import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { openMongoHome } from '../support/truth/store-homes.ts';
import { testTruthOfBatches } from './truth-batches.ts';

const mongo = await startMongo();

testTruthOfBatches({
  test,
  fault: {
    id: 'B2',
    done: 'workers and ingresses are killed amid a batch of 5,000 lines, and MongoDB is away',
    promised: 'every line ends once and is charged once, as the results have it',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  lines: 5_000,
  openHome: (parts) => openMongoHome(parts, mongo, 'batch'),
});
