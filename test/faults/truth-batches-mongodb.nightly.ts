import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { sized } from '../support/size.ts';
import { openMongoHome } from '../support/truth/store-homes.ts';
import { testTruthOfBatches } from './truth-batches.ts';

const mongo = await startMongo();

testTruthOfBatches({
  test,
  fault: {
    id: 'B2',
    done: 'workers and ingresses are killed during a long batch, and MongoDB is unreachable',
    promised: 'every line ends once and is charged once, as its results say',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  lines: sized(1_500),
  openHome: (parts) => openMongoHome(parts, mongo, 'batch'),
});
