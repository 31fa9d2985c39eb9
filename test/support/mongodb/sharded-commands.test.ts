import { readFileSync } from 'node:fs';
import test from 'ava';
import { knownExceptions, shardKeys } from './shard-keys.ts';
import { withoutIndex, withoutShardKey } from './sharded-commands.ts';

const page = readFileSync(new URL('../../../ingress/documentation/mongodb.md', import.meta.url), 'utf8');

const sent = (commandName: string, collection: string, rest: object) =>
  withoutShardKey({ commandName, command: { [commandName]: collection, ...rest } });

test('a command on a sharded collection must have the value of its shard key', (t) => {
  t.deepEqual(sent('find', 'usage_sums', { filter: { _id: 'user:ann 2026-12' } }), []);
  t.deepEqual(sent('find', 'usage_sums', { filter: { _id: { $in: ['a', 'b'] } } }), []);
  t.deepEqual(sent('find', 'usage_sums', { filter: { _id: { $gt: 'a' } } }), ['find usage_sums _id']);
  t.deepEqual(sent('find', 'usage_sums', { filter: {} }), ['find usage_sums ']);
  t.deepEqual(sent('find', 'accounts', { filter: {} }), []);
  t.deepEqual(sent('insert', 'usage_days', { documents: [{ account: 'a' }, { _id: 1 }] }), ['insert usage_days _id']);
  const updates = [{ q: { _id: 1, account: 'a', lastEntry: { $lt: 'x' } } }, { q: { _id: 2 } }];
  t.deepEqual(sent('update', 'usage_days', { updates }), ['update usage_days _id']);
  t.deepEqual(sent('delete', 'usage_days', { deletes: [{ q: { month: 1 } }] }), ['delete usage_days month']);
  t.deepEqual(sent('aggregate', 'usage_records', { pipeline: [{ $match: { _id: 1 } }] }), []);
  t.deepEqual(sent('aggregate', 'usage_records', { pipeline: [{ $group: { _id: null } }] }), [
    'aggregate usage_records ',
  ]);
  t.deepEqual(sent('findAndModify', 'usage_sums', { query: { _id: 1 } }).length, 1, 'an unknown command is reported');
});

test('a command must have a field that begins an index, in each of its alternatives', (t) => {
  const scans = (commandName: string, collection: string, rest: object) =>
    withoutIndex({ commandName, command: { [commandName]: collection, ...rest } });
  t.deepEqual(scans('find', 'accounts', { filter: { byKeyHash: 'a', plan: 'b' } }), []);
  t.deepEqual(scans('find', 'accounts', { filter: { plan: 'b' } }), ['find accounts plan']);
  t.deepEqual(scans('find', 'accounts', { filter: {} }), ['find accounts ']);
  t.deepEqual(scans('find', 'accounts', { filter: {}, limit: 1 }), []);
  t.deepEqual(scans('find', 'accounts', { filter: { plan: 'b' }, limit: 1 }), ['find accounts plan']);
  t.deepEqual(scans('find', 'accounts', { filter: { plan: 'b' }, sort: { _id: 1 }, limit: 100 }), []);
  t.deepEqual(scans('find', 'accounts', { filter: { $or: [{ _id: 1 }, { byKeyHash: 'a' }] } }), []);
  t.deepEqual(scans('find', 'accounts', { filter: { $or: [{ _id: 1 }, { plan: 'a' }] } }), ['find accounts $or']);
  t.deepEqual(scans('delete', 'batches', { deletes: [{ q: { _id: 1 } }, { q: { state: 1 } }] }), [
    'delete batches state',
  ]);
  t.deepEqual(scans('count', 'batches', {}), [], 'metadata');
});

test('no exception is a write, except of old months and hours', (t) => {
  const written = Object.entries(knownExceptions).filter(([command]) => !/^(find|aggregate) /.test(command));
  t.deepEqual([...new Set(written.map(([, reason]) => reason))], ['removes old months', 'removes old hours']);
});

test('the page for operators has the command for each collection that can be sharded', (t) => {
  const commands = [...page.matchAll(/^sh\.shardCollection\('inference\.(\S+)', (\{.*\})\);$/gm)];
  const documented = commands.map(([, name = '', key = '']) => [
    name,
    key.replace(/(\w+):/g, '"$1":').replaceAll("'", '"'),
  ]);
  t.deepEqual(Object.fromEntries(documented.map(([name = '', key = '']) => [name, JSON.parse(key)])), shardKeys);
});
