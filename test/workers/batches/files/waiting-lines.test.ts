import test from 'ava';
import { createWaitingLines, type WaitingLine } from '../../../../workers/batches/files/waiting-lines.ts';

function waitingLine(line: number, change: Partial<WaitingLine> = {}): WaitingLine {
  const place = { number: 2, failures: 1, losses: 0, from: line * 100, length: 99 };
  return { line, ...place, model: 'm', notBefore: 1_000, ...change };
}

const anyLine = () => true;

test('a line is taken once, when it is due and not before', (t) => {
  const waiting = createWaitingLines();
  waiting.put(waitingLine(1));
  t.is(waiting.takeDue(999, anyLine), undefined);
  t.is(waiting.takeDue(1_000, anyLine)?.line, 1);
  t.is(waiting.takeDue(1_000, anyLine), undefined);
  t.is(waiting.size(), 0);
});

test('each line that is due is taken, and the others come when they are due', (t) => {
  const waiting = createWaitingLines();
  for (const [line, notBefore] of [
    [1, 3_000],
    [2, 1_000],
    [3, 1_000],
    [4, 2_000],
  ] as const) {
    waiting.put(waitingLine(line, { notBefore }));
  }
  const taken = [1_000, 1_000, 1_000, 1_999, 2_000, 2_000, 3_000].map((now) => waiting.takeDue(now, anyLine)?.line);
  t.deepEqual(taken, [2, 3, undefined, undefined, 4, undefined, 1]);
});

test('a line that may not be queued stays, and is taken as soon as it may', (t) => {
  const waiting = createWaitingLines();
  waiting.put(waitingLine(1));
  waiting.put(waitingLine(2, { model: 'other' }));
  t.is(waiting.takeDue(2_000, ({ model }) => model === 'other')?.line, 2);
  t.is(
    waiting.takeDue(2_000, () => false),
    undefined,
  );
  t.is(waiting.takeDue(2_000, anyLine)?.line, 1);
});

test('a line that is put again has only its new time', (t) => {
  const waiting = createWaitingLines();
  waiting.put(waitingLine(1, { notBefore: 0 }));
  waiting.put(waitingLine(1, { notBefore: 5_000 }));
  t.is(waiting.size(), 1);
  t.is(waiting.skipped(), 0);
  t.is(waiting.takeDue(4_999, anyLine), undefined);
  t.is(waiting.takeDue(5_000, anyLine)?.line, 1);
});

test('lines that wait only for their turn are counted', (t) => {
  const waiting = createWaitingLines();
  waiting.put(waitingLine(1, { notBefore: 0 }));
  waiting.put(waitingLine(2, { notBefore: 0 }));
  waiting.put(waitingLine(3));
  t.is(waiting.skipped(), 2);
  waiting.takeDue(0, anyLine);
  t.is(waiting.skipped(), 1);
  waiting.takeAny(({ line }) => line === 2);
  t.is(waiting.skipped(), 0);
  t.true(waiting.has(3));
  t.deepEqual(
    [...waiting.all()].map(({ line }) => line),
    [3],
  );
});

test('a line that fits is taken even if it is not due', (t) => {
  const waiting = createWaitingLines();
  waiting.put(waitingLine(1, { model: 'other' }));
  waiting.put(waitingLine(2));
  t.is(waiting.takeAny(({ model }) => model === 'm')?.line, 2);
  t.is(
    waiting.takeAny(({ model }) => model === 'm'),
    undefined,
  );
});

test('lines of a model that is available again become due within a second, at different times, and never later than before', (t) => {
  const lots = [0, 0.5, 0.999, 0.25];
  const waiting = createWaitingLines(() => lots.shift() ?? 0);
  for (const line of [1, 2, 3]) waiting.put(waitingLine(line, { notBefore: 300_000 }));
  waiting.put(waitingLine(4, { notBefore: 100 }));
  waiting.put(waitingLine(5, { model: 'other', notBefore: 300_000 }));
  waiting.wake('m', 1_000);
  const times = new Map([...waiting.all()].map(({ line, notBefore }) => [line, notBefore]));
  t.deepEqual(
    times,
    new Map([
      [4, 100],
      [1, 1_000],
      [2, 1_500],
      [3, 1_999],
      [5, 300_000],
    ]),
  );
  t.is(waiting.takeDue(100, anyLine)?.line, 4);
  t.is(waiting.takeDue(1_000, anyLine)?.line, 1);
});
