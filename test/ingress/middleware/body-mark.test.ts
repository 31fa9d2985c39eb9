import test from 'ava';
import { bodyMarks, canonicalJson } from '../../../ingress/middleware/idempotency.ts';
import { parseExactly } from '../../../shared/json/exact-json.ts';

const owner = { account: 'user:alice', idempotencyKey: 'order 17' };
const asked = { endpoint: '/v1/chat/completions', body: '{"model":"a"}' };

test('equal values have the same canonical text, whatever their order and spaces', (t) => {
  const one = canonicalJson(JSON.parse('{"b":[{"y":1,"x":null}],"a":{"d":"text","c":true}}'));
  const other = canonicalJson(JSON.parse(' { "a": {"c":true, "d":"text"}, "b" : [ {"x":null,"y":1.0} ] } '));
  t.is(one, other);
  t.is(one, '{"a":{"c":true,"d":"text"},"b":[{"x":null,"y":1}]}');
});

test('members within a list are in order, also beside plain values', (t) => {
  t.is(canonicalJson(JSON.parse('[1,{"b":1,"a":[2,{"d":1,"c":2}]},"x"]')), '[1,{"a":[2,{"c":2,"d":1}],"b":1},"x"]');
});

test('different values have different texts', (t) => {
  const texts = [
    '{"a":[1,2]}',
    '{"a":[2,1]}',
    '{"a":["1",2]}',
    '{"a":{"0":1}}',
    '{"__proto__":1}',
    '{"a":{}}',
    '{"a":[]}',
  ];
  t.is(new Set(texts.map((text) => canonicalJson(JSON.parse(text)))).size, texts.length);
  const seed = (digits: string) => canonicalJson(parseExactly(`{"seed":${digits}}`));
  t.not(seed('9007199254740993'), seed('9007199254740992'), 'numbers beyond the precision of a double');
});

test('a mark depends on body, endpoint, account, key and pepper', (t) => {
  const [mark, under] = bodyMarks(['one', 'two'], owner, asked);
  const others = [
    bodyMarks(['one'], owner, { ...asked, body: '{"model":"b"}' }),
    bodyMarks(['one'], owner, { ...asked, endpoint: '/v1/completions' }),
    bodyMarks(['one'], { ...owner, account: 'user:bob' }, asked),
    bodyMarks(['one'], { ...owner, idempotencyKey: 'order 18' }, asked),
  ].flat();
  t.is(new Set([mark, under, ...others]).size, 6);
  t.deepEqual(bodyMarks(['two'], owner, asked), [under ?? '']);
  t.regex(mark, /^[\w-]{43}$/);
});
