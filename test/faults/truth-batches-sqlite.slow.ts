import test from 'ava';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruthOfBatches } from './truth-batches.ts';

testTruthOfBatches({
  test,
  fault: {
    id: 'B1',
    done: 'workers and ingresses are killed amid a batch of 2,000 lines, and the embedded store is away',
    promised: 'every line ends once and is charged once, as the results have it',
  },
  lines: 2_000,
  openHome: openSqliteHome,
});
