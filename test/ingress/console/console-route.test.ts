import test from 'ava';
import {
  accountLink,
  auditLink,
  batchLink,
  codeStates,
  codesLink,
  findLink,
  foundLink,
  isForOperators,
  type PageName,
  pages,
  parseRoute,
  requestLink,
  requestsLink,
  searchLink,
  searchText,
  titleOf,
  usageLink,
} from '../../../ingress/console/page/console-route.ts';

test('a fragment names a page, and an unknown one leads to the overview', (t) => {
  for (const page of Object.keys(pages) as PageName[]) t.is(parseRoute(`#${page}`).page, page);
  t.deepEqual(parseRoute('#top-up'), { page: 'usage', isTopUp: true });
  for (const hash of ['', '#']) t.deepEqual(parseRoute(hash), { page: 'overview', isHome: true });
  for (const hash of ['#nowhere', '#constructor', '#overview/1'])
    t.deepEqual(parseRoute(hash), { page: 'overview' }, hash);
  t.deepEqual(parseRoute('#keys/1'), { page: 'keys' });
  t.deepEqual(parseRoute('#keys?new'), { page: 'keys', isNewKey: true });
});

test('the pages of operators are known', (t) => {
  const own = (Object.keys(pages) as PageName[]).filter((page) => !isForOperators(page));
  t.deepEqual(own, ['overview', 'requests', 'batches', 'usage', 'keys', 'webhooks', 'try-it']);
});

test('a link to an account works for any name', (t) => {
  for (const account of ['user:alice', 'user:a/b#c?d%20', 'device:00ff', 'user:名前 😀']) {
    t.deepEqual(parseRoute(accountLink(account)), { page: 'accounts', item: account });
    t.deepEqual(parseRoute(accountLink(account, 'plan')), { page: 'accounts', item: account, action: 'plan' });
  }
  for (const prefix of ['user:al', 'a/b?c#d%', '名']) {
    t.deepEqual(parseRoute(searchLink(prefix)), { page: 'accounts', search: prefix });
  }
  t.is(searchLink(''), '#accounts');
  t.deepEqual(parseRoute('#accounts/%'), { page: 'accounts', item: '%' });
});

test('a link to a request or a batch works for any id', (t) => {
  for (const id of ['req_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'chatcmpl-1/2?3#4%']) {
    t.deepEqual(parseRoute(requestLink(id)), { page: 'requests', item: id });
    t.deepEqual(parseRoute(batchLink(id)), { page: 'batches', item: id });
  }
  t.is(titleOf(parseRoute(batchLink('batch_1'))), 'batch_1');
  t.deepEqual(parseRoute(foundLink('req_1')), { page: 'find', item: 'req_1' });
  t.deepEqual(parseRoute(findLink('a/b?c#d%')), { page: 'find', search: 'a/b?c#d%' });
});

test('a link to the usage of some days works for both reports, and a part of the page has its own', (t) => {
  for (const page of ['usage', 'all-usage'] as const) {
    for (const filter of [
      { period: 'yesterday', by: 'key,model' },
      { period: 'own', start: '2026-11-01', end: '2026-11-30' },
    ])
      t.deepEqual(parseRoute(usageLink(filter, page)), { page, filter });
    t.is(usageLink({}, page), `#${page}`);
  }
  t.is(usageLink({ by: 'key' }), '#usage?by=key');
});

test('a link to filtered requests works for any values, and other parameters are ignored', (t) => {
  for (const filter of [{ model: 'a&b=c?d#e%20+f' }, { outcome: 'failed', key_id: 'key_1' }]) {
    t.deepEqual(parseRoute(requestsLink(filter)), { page: 'requests', filter });
  }
  t.is(requestsLink({}), '#requests');
  t.deepEqual(parseRoute('#requests?model=&other=x'), { page: 'requests', filter: {} });
});

test('a link to a filtered audit trail works for any names', (t) => {
  for (const filter of [
    { account: 'user:a&b=c?d#e%20+f' },
    { actor: 'user:名前' },
    { account: 'a', kind: 'key', start: '2026-03-01' },
  ]) {
    t.deepEqual(parseRoute(auditLink(filter)), { page: 'audit', filter });
  }
  t.is(auditLink({}), '#audit');
  for (const hash of ['#audit', '#audit/', '#audit?']) t.deepEqual(parseRoute(hash), { page: 'audit' }, hash);
  t.deepEqual(parseRoute('#audit?account=&other=x'), { page: 'audit', filter: {} });
  t.is(titleOf(parseRoute('#audit?actor=b')), 'Audit trail');
  t.is(titleOf(parseRoute('#accounts')), 'Accounts');
  t.is(titleOf(parseRoute(accountLink('user:alice'))), 'user:alice');
});

test('a link to the top-up codes in a state works, and another state shows all', (t) => {
  const route = { page: 'top-up-codes' } as const;
  for (const state of codeStates) t.deepEqual(parseRoute(codesLink(state)), { ...route, state });
  t.is(codesLink(undefined), '#top-up-codes');
  for (const hash of ['#top-up-codes', '#top-up-codes?', '#top-up-codes?claimed', '#top-up-codes/x'])
    t.deepEqual(parseRoute(hash), route, hash);
  t.is(titleOf(parseRoute('#top-up-codes?unused')), 'Top-up codes');
});

test('of a key only what is shown of it is searched for', (t) => {
  t.is(searchText(` svc_${'A1'.repeat(19)} `), 'svc_A1A1A1');
  t.is(searchText('svc_A1****'), 'svc_A1');
  t.is(searchText(' user:alice '), 'user:alice');
});
