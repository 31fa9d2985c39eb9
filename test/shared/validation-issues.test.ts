import test from 'ava';
import { z } from 'zod';
import { validationIssuesOf } from '../../shared/validation-issues.ts';

const schema = z.strictObject({
  messages: z.array(z.strictObject({ content: z.string() })),
  count: z.int().positive(),
  names: z.record(z.string(), z.number()),
});

const right = { messages: [{ content: 'a' }], count: 1, names: {} };

function faultsIn(value: unknown) {
  const parsed = schema.safeParse(value);
  return parsed.success ? [] : validationIssuesOf(parsed.error);
}

test('names every fault by its path, with a message for the author of the input', (t) => {
  t.deepEqual(faultsIn(right), []);
  t.deepEqual(faultsIn({ messages: [{ content: 'a' }, { content: 1 }], count: -1, names: { 'a.b': 'x' } }), [
    { path: 'messages[1].content', message: 'expected string, received number' },
    { path: 'count', message: 'too small: expected number to be >0' },
    { path: 'names.a.b', message: 'expected number, received string' },
  ]);
  t.deepEqual(faultsIn({ ...right, messages: undefined }), [
    { path: 'messages', message: 'expected array, received undefined' },
  ]);
});

test('names each unknown field by its own path', (t) => {
  t.deepEqual(faultsIn({ ...right, a: 1, b: 2, messages: [{ content: 'a', c: 3 }] }), [
    { path: 'messages[0].c', message: 'is not known' },
    { path: 'a', message: 'is not known' },
    { path: 'b', message: 'is not known' },
  ]);
});

test('the input as such has an empty path', (t) => {
  t.deepEqual(faultsIn(null), [{ path: '', message: 'expected object, received null' }]);
});

test('never repeats a value', (t) => {
  const secret = 'svc_secret';
  const faults = faultsIn({ messages: secret, count: secret, names: { a: secret } });
  t.is(faults.length, 3);
  t.false(JSON.stringify(faults).includes(secret));
});
