import test from 'ava';
import { z } from 'zod';
import { limitParameter, parseQuery, presentList } from '../../../ingress/api/lists.ts';

const schema = z.strictObject({ limit: limitParameter({ max: 100, usual: 20 }), after: z.string().optional() });

test('a query has its values, and defaults for missing parameters', (t) => {
  t.deepEqual(parseQuery(schema, ''), { limit: 20 });
  t.deepEqual(parseQuery(schema, 'limit=1&after=x%20y'), { limit: 1, after: 'x y' });
  t.is(parseQuery(schema, 'limit=100').limit, 100);
});

test('names every invalid parameter: not a number, out of range, repeated, unknown', (t) => {
  for (const limit of ['0', '101', '-1', '1.5', '1e1', '0x1', '', ' 1', 'ten', '01', '9'.repeat(30)]) {
    t.throws(() => parseQuery(schema, `limit=${limit}`), { message: 'limit: expected a whole number from 1 to 100' });
  }
  t.throws(() => parseQuery(schema, 'limit=1&limit=2'), { message: /^limit: expected string/ });
  t.throws(() => parseQuery(schema, '__proto__=1&limit=0'), {
    message: 'limit: expected a whole number from 1 to 100; __proto__: is not known',
  });
  t.throws(() => parseQuery(schema, `${'x'.repeat(1_000)}=1`), { message: /^x{32}…: is not known$/ });
});

test('a list has at most the requested number of items, says whether there are more, and names its first and last', (t) => {
  const [a, b] = [{ id: 'a' }, { id: 'b' }];
  const list = (found: { id: string }[]) => presentList({ found, limit: 2, present: (item) => item });
  t.deepEqual(list([a, b]), { object: 'list', data: [a, b], first_id: 'a', last_id: 'b', has_more: false });
  t.deepEqual(list([a, b, { id: 'c' }]), { ...list([a, b]), has_more: true });
  t.deepEqual(list([]), { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
});
