import test from 'ava';
import { headerValues } from '../../../ingress/listener/request-headers.ts';

const rawHeaders = ['Host', 'a', 'X-Two', '1', 'x-two', '', 'X-TWO', '3', 'X-Two-More', '4', 'host-', 'b'];

test('returns all values of a header in order, in any case of its name, including empty ones', (t) => {
  t.deepEqual(headerValues({ rawHeaders }, 'x-two'), ['1', '', '3']);
  t.deepEqual(headerValues({ rawHeaders }, 'host'), ['a']);
});

test('a value is not taken for a name, and a missing header has no values', (t) => {
  t.deepEqual(headerValues({ rawHeaders: ['a', 'host', 'b', 'c'] }, 'host'), []);
  t.deepEqual(headerValues({ rawHeaders: [] }, 'host'), []);
});
