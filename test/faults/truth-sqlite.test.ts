import test from 'ava';
import { sized } from '../support/size.ts';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruth } from './truth.ts';

testTruth({
  test,
  fault: {
    id: 'A1',
    done: 'many requests run and a quarter of the clients may disconnect, while processes are killed, Redis is disconnected and the embedded store is unavailable',
    promised: 'clients, backends, records, sums, reports and Redis agree, to the token; nothing is left held',
  },
  requests: sized(150, 250),
  openHome: openSqliteHome,
});
