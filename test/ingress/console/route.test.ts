import test from 'ava';
import { accountLink, parseRoute, searchLink } from '../../../ingress/console/page/route.ts';

test('a fragment names a page, and what says nothing leads to the keys', (t) => {
  t.deepEqual(parseRoute('#usage'), { page: 'usage' });
  t.deepEqual(parseRoute('#top-up'), { page: 'usage', section: 'top-up' });
  for (const hash of ['', '#', '#nowhere', '#constructor', '#keys/1'])
    t.deepEqual(parseRoute(hash), { page: 'keys' }, hash);
});

test('a link to an account leads to it, whatever its name', (t) => {
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
