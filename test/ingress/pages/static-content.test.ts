import test from 'ava';
import { createAssetSet } from '../../../ingress/pages/static-content.ts';

test('all names change if any byte of any asset changes, and only then', (t) => {
  const files = { 'a.js': 'a', 'b.css': 'b' };
  const nameOf = (changed: object) => createAssetSet(new Map(Object.entries({ ...files, ...changed }))).nameOf('a.js');
  t.is(nameOf({}), nameOf({}));
  t.not(nameOf({ 'b.css': 'c' }), nameOf({}));
  t.regex(nameOf({}), /^[\w-]{16}\/a\.js$/);
});

test('an unknown media type and an unknown name are programming errors', (t) => {
  t.throws(() => createAssetSet(new Map([['a.exe', '']])), { message: /no media type/ });
  t.throws(() => createAssetSet(new Map()).nameOf('a.js'), { message: /no asset/ });
});
