import test from 'ava';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruth } from './truth.ts';

testTruth({
  test,
  fault: {
    id: 'A1',
    done: 'of 2,000 requests a quarter of the clients may leave, while processes are killed, Redis is cut off and the embedded store is away',
    promised: 'clients, backends, records, sums and Redis agree, to the token; nothing is left held',
  },
  requests: 2_000,
  openHome: openSqliteHome,
});
