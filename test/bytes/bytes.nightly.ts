import test from 'ava';
import { itemBytes } from '../../workers/memory/item-bytes.ts';
import { openMongoTests } from '../support/mongodb/mongo-tests.ts';
import { measureRedis } from './measure-redis.ts';
import { measureMongo, measureSqlite } from './measure-store.ts';
import { differing } from './measured-bytes.ts';

const { mongoTest, createHome } = await openMongoTests(test);

test.serial('every item takes as many bytes in Redis as the page for operators says', async (t) => {
  t.timeout(240_000);
  t.deepEqual(differing(itemBytes.redis, await measureRedis()), []);
});

test.serial('every item takes as many bytes in SQLite as the page says', async (t) => {
  t.deepEqual(differing(itemBytes.sqlite, await measureSqlite()), []);
});

mongoTest('every item takes as many bytes in MongoDB as the page says', async (t) => {
  t.deepEqual(differing(itemBytes.mongodb, await measureMongo(createHome)), []);
});

test('a value that is a quarter larger or smaller than the known one, or missing, is found', (t) => {
  const known = { a: { bytes: 100, perKibibyte: 1_000 }, b: { bytes: 100 } };
  t.deepEqual(differing(known, { a: { bytes: 125, perKibibyte: 750 }, b: { bytes: 75 } }), []);
  t.deepEqual(differing(known, { a: { bytes: 126, perKibibyte: 749 }, b: { bytes: 74 } }), [
    'a: bytes is 100, measured 126',
    'a: perKibibyte is 1000, measured 749',
    'b: bytes is 100, measured 74',
  ]);
  t.deepEqual(differing(known, { a: known.a, c: { bytes: 1 } }), ['b is missing', 'c is missing']);
});
