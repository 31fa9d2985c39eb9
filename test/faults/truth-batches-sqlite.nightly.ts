import test from 'ava';
import { sized } from '../support/size.ts';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruthOfBatches } from './truth-batches.ts';

testTruthOfBatches({
  test,
  fault: {
    id: 'B1',
    done: 'workers and ingresses are killed during a long batch, and the embedded store is unavailable',
    promised: 'every line ends once and is charged once, as its results say',
  },
  lines: sized(500),
  openHome: openSqliteHome,
});
