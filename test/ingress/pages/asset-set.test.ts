import test from 'ava';
import { createAssetSet } from '../../../ingress/pages/asset-set.ts';

test('every name changes with any byte of any of them, and with nothing else', (t) => {
  const files = { 'a.js': 'a', 'b.css': 'b' };
  const nameOf = (changed: object) => createAssetSet(new Map(Object.entries({ ...files, ...changed }))).nameOf('a.js');
  t.is(nameOf({}), nameOf({}));
  t.not(nameOf({ 'b.css': 'c' }), nameOf({}));
  t.regex(nameOf({}), /^[\w-]{16}\/a\.js$/);
});

test('what has no media type, and a name that is not there, are faults of ours', (t) => {
  t.throws(() => createAssetSet(new Map([['a.exe', '']])), { message: /no media type/ });
  t.throws(() => createAssetSet(new Map()).nameOf('a.js'), { message: /no asset/ });
});
