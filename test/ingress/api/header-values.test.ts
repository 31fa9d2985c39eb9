import test from 'ava';
import { headerValues } from '../../../ingress/api/header-values.ts';

const rawHeaders = ['Host', 'a', 'X-Two', '1', 'x-two', '', 'X-TWO', '3', 'X-Two-More', '4', 'host-', 'b'];

test('all values of a name are given in their order, however it is written, empty ones too', (t) => {
  t.deepEqual(headerValues({ rawHeaders }, 'x-two'), ['1', '', '3']);
  t.deepEqual(headerValues({ rawHeaders }, 'host'), ['a']);
});

test('a value is no name, and a header that is missing has no values', (t) => {
  t.deepEqual(headerValues({ rawHeaders: ['a', 'host', 'b', 'c'] }, 'host'), []);
  t.deepEqual(headerValues({ rawHeaders: [] }, 'host'), []);
});
