import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import type { Exchange } from '../../../workers/backend-client/exchange.ts';
import { readEvents, type StreamEnd } from '../../../workers/backend-client/read-events.ts';

/** A reader that takes each event on demand, and an exchange that records the calls. */
function opened() {
  const calls: unknown[] = [];
  const taken: string[] = [];
  const busy: ((isCut: boolean) => void)[] = [];
  let isOver = false;
  let arrive = () => {};
  const resume = () => {
    calls.push('resume');
    arrive();
  };
  const end = (how: string) => (what: unknown) => {
    isOver = true;
    calls.push([how, what]);
  };
  const exchange: Exchange<StreamEnd> = {
    ...{ succeed: end('succeed'), stop: end('stop'), fail: end('fail'), isOver: () => isOver },
    ...{ pause: () => calls.push('pause'), resume },
    ...{ expectWithin: () => {}, relax: () => calls.push('relax') },
    ...{ source: { pause() {}, resume() {} }, pausedMs: () => 0 },
  };
  const reader = {
    take(data: string) {
      taken.push(data);
      return new Promise<boolean>((resolve) => busy.push(resolve));
    },
    begun: () => true,
  };
  const body = readEvents({ exchange, reader, expectNext: () => calls.push('expect') });
  /** The reader has finished its event. */
  async function release(isCut = false): Promise<void> {
    busy.shift()?.(isCut);
    await new Promise(setImmediate);
  }
  /** What arrives at once when the connection is resumed. */
  function onResume(come: () => void): void {
    arrive = come;
  }
  return { body, calls, taken, release, onResume };
}

const event = (data: string) => Buffer.from(`data: ${data}\n\n`);

test('a busy reader gets the next event when it has finished, and the end after the last one', async (t) => {
  const { body, calls, taken, release } = opened();
  body.take(Buffer.from('data: one\n\ndata: two\n\n'));
  body.take(event('three'));
  body.end();
  t.deepEqual(taken, ['one']);
  await release();
  t.deepEqual(taken, ['one', 'two']);
  await release();
  t.deepEqual(taken, ['one', 'two', 'three']);
  t.false(calls.flat().includes('succeed'));
  await release();
  t.deepEqual(calls.at(-1), ['succeed', 'ended']);
});

test('the time limit of the next event starts when the reader has finished the last one', async (t) => {
  const { body, calls, release } = opened();
  body.take(event('one'));
  body.take(event('two'));
  await release();
  t.deepEqual(calls, ['relax', 'relax']);
  await release();
  t.deepEqual(calls, ['relax', 'relax', 'expect']);
});

test('the connection is paused while a busy reader has 64 KiB kept, and resumed when all of it is taken', async (t) => {
  const { body, calls, taken, release } = opened();
  body.take(event('one'));
  body.take(event('x'.repeat(65_000)));
  t.false(calls.includes('pause'));
  body.take(event('x'.repeat(1_000)));
  t.true(calls.includes('pause'));
  for (let left = 3; left > 0; left--) {
    t.false(calls.includes('resume'));
    await release();
  }
  t.true(calls.includes('resume'));
  t.deepEqual(
    taken.map(({ length }) => length),
    [3, 65_000, 1_000],
  );
});

test('bytes that arrive while the connection is resumed are taken in order, and pause it again', async (t) => {
  const { body, calls, taken, release, onResume } = opened();
  const large = 'x'.repeat(70_000);
  onResume(() => {
    body.take(event('three'));
    body.take(event(large));
  });
  body.take(event('one'));
  body.take(event(large));
  await release();
  await release();
  t.deepEqual(taken, ['one', large, 'three']);
  onResume(() => body.end());
  await release();
  await release();
  t.deepEqual(taken, ['one', large, 'three', large]);
  const pauses = calls.filter((each) => each === 'pause' || each === 'resume');
  t.deepEqual(pauses, ['pause', 'resume', 'pause', 'resume']);
  t.deepEqual(calls.at(-1), ['succeed', 'ended']);
});

test('events before a failure are taken first, and those after the reader has enough are not', async (t) => {
  const failure = new BackendError('connection', 'the connection failed');
  const broken = opened();
  broken.body.take(Buffer.from('data: one\n\ndata: two\n\n'));
  broken.body.breakOff(failure);
  await broken.release();
  t.deepEqual(broken.taken, ['one', 'two']);
  await broken.release();
  t.deepEqual(broken.calls.at(-1), ['fail', failure]);

  const cut = opened();
  cut.body.take(Buffer.from('data: one\n\ndata: two\n\n'));
  await cut.release(true);
  t.deepEqual(cut.calls.at(-1), ['stop', 'cut']);
  t.deepEqual(cut.taken, ['one']);
});

test('[DONE] is taken, and nothing after it', async (t) => {
  const { body, calls, taken, release } = opened();
  body.take(Buffer.concat([Buffer.from('data: [DONE]\n\ndata: more\n\n'), Buffer.of(0xff)]));
  await release();
  t.deepEqual(taken, ['[DONE]']);
  t.deepEqual(calls.at(-1), ['succeed', 'done']);
});

test('an event at which the reader fails is the last one, also if more arrives at the same moment', async (t) => {
  const { calls, ...rest } = opened();
  const taken: string[] = [];
  const failure = new BackendError('unreadable', 'an event is not a chunk');
  let isOver = false;
  const exchange = {
    fail(error: unknown) {
      isOver = true;
      calls.push(error);
    },
    ...{ relax() {}, isOver: () => isOver },
  };
  const reader = {
    async take(data: string) {
      taken.push(data);
      return false;
    },
    begun: () => true,
  };
  const failing = (data: string) => {
    if (data !== 'bad') return reader.take(data);
    taken.push(data);
    throw failure;
  };
  // Nothing more of the exchange is called.
  const body = readEvents({ exchange: exchange as never, reader: { ...reader, take: failing }, expectNext() {} });
  body.take(Buffer.from('data: one\n\ndata: bad\n\ndata: two\n\n'));
  for (let turns = 0; turns < 10; turns++) {
    await null;
    if (!isOver) body.take(event('three'));
  }
  t.deepEqual(taken, ['one', 'bad']);
  t.deepEqual(calls, [failure]);
  t.deepEqual(rest.taken, []);
});

test('the call fails with the error of a busy reader', async (t) => {
  const { calls, ...rest } = opened();
  const failure = new Error('Redis is unavailable');
  const failing = { take: () => Promise.reject(failure), begun: () => true };
  const exchange = { fail: (error: unknown) => calls.push(error), relax() {}, isOver: () => false };
  // Nothing more of the exchange is called.
  const body = readEvents({ exchange: exchange as never, reader: failing, expectNext() {} });
  body.take(event('one'));
  await new Promise(setImmediate);
  t.deepEqual(calls, [failure]);
  t.deepEqual(rest.taken, []);
});
