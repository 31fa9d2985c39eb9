import test from 'ava';
import { accountName } from '../../../ingress/console/operators/accounts-page.ts';

test('a name without a prefix is a user', (t) => {
  const names = ['', '  ', 'alice', ' alice ', 'user:alice', 'device:00ff', 'User:alice'];
  t.deepEqual(names.map(accountName), [
    '',
    '',
    'user:alice',
    'user:alice',
    'user:alice',
    'device:00ff',
    'user:User:alice',
  ]);
});
