import test from 'ava';
import { searchText } from '../../../ingress/console/page/search-text.ts';

test('of a key only what is shown of it is searched for', (t) => {
  t.is(searchText(` svc_${'A1'.repeat(19)} `), 'svc_A1A1A1');
  t.is(searchText('svc_A1****'), 'svc_A1');
  t.is(searchText(' user:alice '), 'user:alice');
});
