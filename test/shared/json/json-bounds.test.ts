import test from 'ava';
import fc from 'fast-check';
import { exceededJsonBound, jsonDepthMax, jsonPartsMax } from '../../../shared/json/json-bounds.ts';

type Bounds = Parameters<typeof exceededJsonBound>[1];

const exceeded = (text: string, bounds?: Bounds) => exceededJsonBound(Buffer.from(text), bounds);
const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const valuesOf = (value: unknown): unknown[] => (isObject(value) ? Object.values(value) : []);
const depthOf = (value: unknown): number => (isObject(value) ? 1 + Math.max(0, ...valuesOf(value).map(depthOf)) : 0);
const partsOf = (value: unknown): number =>
  isObject(value) ? 1 + (Array.isArray(value) ? 0 : valuesOf(value).length) + sum(valuesOf(value).map(partsOf)) : 0;
const commasOf = (value: unknown): number =>
  isObject(value) ? Math.max(0, valuesOf(value).length - 1) + sum(valuesOf(value).map(commasOf)) : 0;
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);

test('depth, parts and commas of any JSON are counted exactly', (t) => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const value = JSON.parse(text);
      const exact = { depthMax: depthOf(value), partsMax: partsOf(value), commasMax: commasOf(value) };
      t.is(exceeded(text, exact), undefined);
      for (const [name, bound] of Object.entries(exact)) {
        if (bound > 0) t.not(exceeded(text, { ...exact, [name]: bound - 1 }), undefined, name);
      }
    }),
  );
});

test('a body may have 128 levels and 25,000 objects, arrays and members, and not one more', (t) => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  t.is(exceeded(nested(jsonDepthMax)), undefined);
  t.is(exceeded(nested(jsonDepthMax + 1)), 'is nested deeper than 128 levels');
  const tooMany = 'has more than 25000 objects, arrays and members together';
  for (const part of ['[],', '{},']) {
    t.is(exceeded(`[${part.repeat(jsonPartsMax - 1)}0]`), undefined);
    t.is(exceeded(`[${part.repeat(jsonPartsMax)}0]`), tooMany);
  }
  t.is(exceeded(`{${'"a":0,'.repeat(jsonPartsMax - 2)}"b":0}`), undefined);
  t.is(exceeded(`{${'"a":0,'.repeat(jsonPartsMax - 1)}"b":0}`), tooMany);
});

test('arrays may have 2,000,000 commas between numbers and strings, and not one more', (t) => {
  for (const value of ['1,', '"a",']) {
    t.is(exceeded(`[${value.repeat(2_000_000)}1]`), undefined);
    t.is(exceeded(`[${value.repeat(2_000_001)}1]`), 'has more than 2000000 values');
  }
});

test('characters inside a string are not counted, also after an escaped quote', (t) => {
  const bounds = { depthMax: 1, partsMax: 2, commasMax: 0 };
  t.is(exceeded('{"a":"[[{{:::,,,\\"[[[::,\\\\"}', bounds), undefined);
  t.not(exceeded('{"a":"\\\\",b:[[', bounds), undefined);
});

test('a long string ends at its closing quote, with any escapes at any position', (t) => {
  const bounds = { depthMax: 1, partsMax: 3, commasMax: 1 };
  for (let length = 0; length < 300; length++) {
    for (const escapes of ['', '\\\\', '\\"', '\\\\\\"', '\\"\\\\']) {
      const text = `{"a":"${'['.repeat(length)}${escapes}${'{'.repeat(100)}${escapes}","b":0}`;
      t.notThrows(() => JSON.parse(text));
      t.is(exceeded(text, bounds), undefined, text);
      t.not(exceeded(text, { ...bounds, commasMax: 0 }), undefined, text);
    }
  }
});

test('the end of a string is never missed: 4 MiB inside it do not count, and one byte after it does', (t) => {
  for (const piece of ['x', '\\"', '\\\\', `${'x'.repeat(63)}\\"`, `${'x'.repeat(64)}\\\\`]) {
    const string = `"${piece.repeat(4_000_000 / piece.length)}"`;
    t.is(exceeded(`[${string},0]`, { depthMax: 1, partsMax: 1, commasMax: 1 }), undefined);
    t.not(exceeded(`[${string},[]]`, { depthMax: 1 }), undefined);
  }
});

test('bytes that are not JSON are limited as well', (t) => {
  for (const text of ['['.repeat(4_000_000), '{"a":'.repeat(200_000), ':'.repeat(100_000)])
    t.not(exceeded(text), undefined);
  for (const text of ['', '"', ']]]]}}}', '\\\\\\']) t.is(exceeded(text), undefined);
});
