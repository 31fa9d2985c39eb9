import test from 'ava';
import { judgeMemory, judgeRest } from './judge.ts';

const passed = { requests: 1_000 };

/** Rises by `rise` with each sample, and falls back by 40 with every fifth, as a heap does. */
const sawtooth = (samples: number, rise: number) =>
  Array.from({ length: samples }, (_, at) => 60 + 10 * (at % 5) + rise * at);
const flat = (samples: number) => Array.from({ length: samples }, () => 200);

const leaking = (figures: { what: string; leaks: boolean }[]) =>
  figures.filter(({ leaks }) => leaks).map(({ what }) => what);

test('a heap that goes up and down is no leak, and one with a rising floor is', (t) => {
  t.deepEqual(leaking(judgeMemory('worker', { residentMiB: flat(200), heapMiB: sawtooth(200, 0) }, passed)), []);
  t.deepEqual(leaking(judgeMemory('worker', { residentMiB: flat(200), heapMiB: sawtooth(200, 0.4) }, passed)), [
    'worker: heap after collection, MiB',
  ]);
});

test('memory outside the heap that rises is a leak as well', (t) => {
  const residentMiB = Array.from({ length: 200 }, (_, at) => 200 + 0.6 * at);
  t.deepEqual(leaking(judgeMemory('ingress', { residentMiB, heapMiB: sawtooth(200, 0) }, passed)), [
    'ingress: resident, MiB',
  ]);
});

test('a few more connections are no leak, many are, and so is a missing last value', (t) => {
  t.deepEqual(leaking(judgeRest({ open: 30 }, { open: 38 })), []);
  t.deepEqual(leaking(judgeRest({ open: 30 }, { open: 39 })), ['open']);
  t.deepEqual(leaking(judgeRest({ open: 30, keys: 5 }, { open: 30 })), ['keys']);
});

test('an expected increase is allowed by name', (t) => {
  const [before, after] = [{ 'marks of ended requests': 10 }, { 'marks of ended requests': 1_000 }];
  t.deepEqual(leaking(judgeRest(before, after, { 'marks of ended requests': 990 })), []);
  t.deepEqual(leaking(judgeRest(before, after, { 'marks of ended requests': 989 })), ['marks of ended requests']);
});

test('the result says how many bytes per request would show as a leak', (t) => {
  const [resident] = judgeMemory('redis', { residentMiB: flat(200), heapMiB: [] }, { requests: 2_000 });
  t.is(resident?.what, 'redis: resident, MiB');
  t.is(resident?.allowed, 36);
  t.is(resident?.seenFromBytes, Math.ceil((36 * 1_048_576) / 1_000));
});

test('what each request keeps for a while is allowed', (t) => {
  const residentMiB = Array.from({ length: 200 }, (_, at) => 20 + 0.6 * at);
  const course = { residentMiB, heapMiB: [] };
  t.is(leaking(judgeMemory('redis', course, { requests: 200_000 })).length, 1);
  t.is(leaking(judgeMemory('redis', course, { requests: 200_000, keptBytes: 800 })).length, 0);
});
