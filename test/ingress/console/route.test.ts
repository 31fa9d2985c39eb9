import test from 'ava';
import {
  accountLink,
  auditLink,
  codeStates,
  codesLink,
  parseRoute,
  searchLink,
  titleOf,
} from '../../../ingress/console/page/route.ts';

test('a fragment names a page, and an unknown one leads to the keys', (t) => {
  t.deepEqual(parseRoute('#usage'), { page: 'usage' });
  t.deepEqual(parseRoute('#top-up'), { page: 'usage', section: 'top-up' });
  for (const hash of ['', '#', '#nowhere', '#constructor', '#keys/1'])
    t.deepEqual(parseRoute(hash), { page: 'keys' }, hash);
});

test('the usage of all accounts has a page of its own', (t) => {
  t.deepEqual(parseRoute('#all-usage'), { page: 'operators', section: 'all-usage' });
  t.is(titleOf(parseRoute('#all-usage')), 'Usage of all accounts');
});

test('a link to an account works for any name', (t) => {
  for (const account of ['user:alice', 'user:a/b#c?d%20', 'device:00ff', 'user:名前 😀']) {
    t.deepEqual(parseRoute(accountLink(account)), { page: 'operators', account });
  }
  for (const prefix of ['user:al', 'a/b?c#d%', '名']) {
    t.deepEqual(parseRoute(searchLink(prefix)), { page: 'operators', search: prefix });
  }
  t.is(searchLink(''), '#operators');
  t.deepEqual(parseRoute('#operators'), { page: 'operators' });
  t.deepEqual(parseRoute('#operators/%'), { page: 'operators', account: '%' });
});

test('a link to a filtered audit trail works for any names', (t) => {
  const route = { page: 'operators', section: 'audit' } as const;
  for (const filter of [{}, { account: 'user:a&b=c?d#e%20+f' }, { actor: 'user:名前' }, { account: 'a', actor: 'b' }]) {
    t.deepEqual(parseRoute(auditLink(filter)), { ...route, filter });
  }
  t.is(auditLink({}), '#audit');
  for (const hash of ['#audit', '#audit/', '#audit?', '#audit?account=&other=x']) {
    t.deepEqual(parseRoute(hash), { ...route, filter: {} }, hash);
  }
  t.is(titleOf(parseRoute('#audit?actor=b')), 'Audit trail');
  t.is(titleOf(parseRoute('#operators')), 'Operators');
  t.is(titleOf(parseRoute(accountLink('user:alice'))), 'user:alice');
});

test('a link to the top-up codes in a state works, and another state shows all', (t) => {
  const route = { page: 'operators', section: 'codes' } as const;
  for (const state of codeStates) t.deepEqual(parseRoute(codesLink(state)), { ...route, state });
  t.is(codesLink(undefined), '#top-up-codes');
  for (const hash of ['#top-up-codes', '#top-up-codes?', '#top-up-codes?claimed', '#top-up-codes/x'])
    t.deepEqual(parseRoute(hash), route, hash);
  t.is(titleOf(parseRoute('#top-up-codes?unused')), 'Top-up codes');
});
