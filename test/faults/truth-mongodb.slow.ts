import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { sized } from '../support/size.ts';
import { openMongoHome } from '../support/truth/store-homes.ts';
import { testTruth } from './truth.ts';

const mongo = await startMongo();

testTruth({
  test,
  fault: {
    id: 'A2',
    done: 'many requests run and a quarter of the clients may disconnect, while processes are killed, Redis is disconnected and MongoDB is unreachable',
    promised: 'clients, backends, records, sums, reports and Redis agree, to the token; nothing is left held',
    notRun: 'reason' in mongo ? mongo.reason : undefined,
  },
  requests: sized(400, 1_000),
  openHome: (parts) => openMongoHome(parts, mongo, 'truth'),
});
