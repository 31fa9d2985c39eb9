import test from 'ava';
import { sized } from '../support/size.ts';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruth } from './truth.ts';

testTruth({
  test,
  fault: {
    id: 'A1',
    done: 'of many requests a quarter of the clients may leave, while processes are killed, Redis is cut off and the embedded store is away',
    promised: 'clients, backends, records, sums and Redis agree, to the token; nothing is left held',
  },
  requests: sized(250),
  openHome: openSqliteHome,
});
