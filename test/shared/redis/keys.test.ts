import test from 'ava';
import {
  accountOfCountersKey,
  controlStreamKey,
  countersKey,
  endedRequestKey,
  partitionOf,
  queuePrefix,
  replyStreamKey,
} from '../../../shared/redis/keys.ts';

const tagOf = (key: string) => /\{(.*?)\}/.exec(key)?.[1];

test('accounts are spread evenly over 64 partitions', (t) => {
  const counts = new Map<number, number>();
  for (let index = 0; index < 64_000; index++) {
    const partition = partitionOf(`user:${index}`);
    counts.set(partition, (counts.get(partition) ?? 0) + 1);
  }
  t.deepEqual(
    [...counts.keys()].sort((a, b) => a - b),
    Array.from({ length: 64 }, (_, index) => index),
  );
  t.true(Math.min(...counts.values()) > 800 && Math.max(...counts.values()) < 1_200);
});

test('an account keeps its partition permanently, in every release', (t) => {
  // The first four bytes of the SHA-256, modulo 64.
  t.deepEqual(['user:alice', 'user:bob', 'device:0', 'user:名前'].map(partitionOf), [56, 41, 26, 24]);
});

test('all keys of one account have its partition as their hash tag', (t) => {
  for (const account of ['user:alice', 'user:{p99}', 'device:0', 'user:}{']) {
    const keys = [endedRequestKey(account, 'req_1'), endedRequestKey(account, 'req_2')];
    t.is(new Set(keys).size, 2);
    for (const key of keys) t.is(tagOf(key), `p${String(partitionOf(account)).padStart(2, '0')}`);
  }
});

test('the account can be read from its counters key, for any account name', (t) => {
  const accounts = ['user:alice', 'user:svc:{p00}:counters:bob', 'user:a:counters:b', 'device:0', 'user:\n*'];
  for (const account of accounts) t.is(accountOfCountersKey(countersKey(account)), account);
});

test('each queue has a tag of its own, and each process its own stream', (t) => {
  t.is(tagOf(queuePrefix('org/large')), 'org/large');
  const keys = [replyStreamKey('a'), replyStreamKey('b'), controlStreamKey('a'), controlStreamKey('b')];
  t.is(new Set(keys).size, 4);
  for (const key of [...keys, queuePrefix('a'), endedRequestKey('user:a', 'r')]) t.true(key.startsWith('svc:'));
});
