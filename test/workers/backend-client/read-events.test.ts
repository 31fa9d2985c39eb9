import test from 'ava';
import fc from 'fast-check';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import type { Exchange } from '../../../workers/backend-client/exchange.ts';
import {
  createEventStreamParser,
  createUtf8Decoder,
  readEvents,
  type StreamEnd,
} from '../../../workers/backend-client/read-events.ts';

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
    ...{ succeed: end('succeed'), stop: end('stop'), fail: end('fail'), hasUnread: () => false, isOver: () => isOver },
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

/** The events that each piece completes, up to a piece that cannot be read. */
function read(...parts: (string | Uint8Array)[]): { events: string[][]; failure: BackendError | undefined } {
  const parse = createEventStreamParser();
  const events: string[][] = [];
  for (const part of parts) {
    const complete: string[] = [];
    const failure = parse(Buffer.from(part as string), complete); // or bytes: both are accepted
    events.push(complete);
    if (failure !== undefined) return { events, failure };
  }
  return { events, failure: undefined };
}

function events(...parts: (string | Uint8Array)[]): string[] {
  const { events, failure } = read(...parts);
  if (failure !== undefined) throw failure;
  return events.flat();
}

const recorded: Record<string, { bytes: string; data: string[] }> = {
  'lines end by LF': {
    bytes: 'data: {"a":"東京 👩‍👩‍👧‍👦"}\n\ndata: {"b":"é"}\n\ndata: [DONE]\n\n',
    data: ['{"a":"東京 👩‍👩‍👧‍👦"}', '{"b":"é"}', '[DONE]'],
  },
  'lines end by CRLF': { bytes: 'data: {"a":"é"}\r\n\r\ndata: [DONE]\r\n\r\n', data: ['{"a":"é"}', '[DONE]'] },
  'lines end by CR': { bytes: 'data: {"a":"é"}\r\rdata: [DONE]\r\rdata: x', data: ['{"a":"é"}', '[DONE]'] },
  'comments, names and ids are in between': {
    bytes:
      ': keep-alive\n\nevent: message\nid: 7\ndata: one\n\n: OPENROUTER PROCESSING\n\nretry: 3\ndata: two\n\n:\n\n',
    data: ['one', 'two'],
  },
  'data is on several lines': { bytes: 'data: {\ndata:   "a": 1\ndata: }\n\n', data: ['{\n  "a": 1\n}'] },
  'no space follows the colon': { bytes: 'data:one\n\ndata:[DONE]\n\n', data: ['one', '[DONE]'] },
  'a byte order mark comes first': { bytes: '\uFEFFdata: one\n\n', data: ['one'] },
};

for (const [title, { bytes, data }] of Object.entries(recorded)) {
  test(`reads the same events for any split of the bytes: ${title}`, (t) => {
    const whole = Buffer.from(bytes);
    t.deepEqual(events(whole), data);
    for (let at = 0; at <= whole.length; at++) {
      t.deepEqual(events(whole.subarray(0, at), whole.subarray(at)), data, `split at ${at}`);
    }
    t.deepEqual(events(...Array.from(whole, (byte) => Uint8Array.of(byte))), data, 'byte by byte');
  });
}

test('returns an event as soon as its last byte has arrived', (t) => {
  t.deepEqual(read('data: one\n', '\ndata: two', '\n\n').events, [[], ['one'], ['two']]);
});

test('returns events that arrive together at once, and nothing if none is complete', (t) => {
  const parts = ['data: one\n\n: a comment\n\ndata: two\n\ndata: th', ': a comment\n', 'ree\n\n'];
  t.deepEqual(read(...parts).events, [['one', 'two'], [], ['th: a comment']]);
});

test('an event that is cut off by the end of the stream is dropped', (t) => {
  t.deepEqual(events('data: one\n\ndata: two'), ['one']);
  t.deepEqual(events(), []);
});

const invalid: [string, (string | Uint8Array)[]][] = [
  ['a byte that is invalid in UTF-8', ['data: ', Uint8Array.of(0xff), '\n\n']],
  ['a character that is cut off by other text', ['data: ', Uint8Array.of(0xe6, 0x9d), 'x\n\n']],
];

for (const [title, parts] of invalid) {
  test(`cannot read ${title}, and returns what came before, for any split`, (t) => {
    const bytes = ['data: before 🎉\n\n', ...parts].map((part) => Buffer.from(part as string)); // or bytes: both are accepted
    const whole = Buffer.concat(bytes);
    const splits = Array.from(whole, (_, at) => [whole.subarray(0, at), whole.subarray(at)]);
    for (const split of [[whole], bytes, Array.from(whole, (byte) => Uint8Array.of(byte)), ...splits]) {
      const { events, failure } = read(...split);
      t.true(failure instanceof BackendError);
      t.is(failure?.fault, 'unreadable');
      t.deepEqual(events.flat(), ['before 🎉']);
    }
  });
}

for (const [title, first, more] of [
  ['one line', 'data: ', 'x'.repeat(65_536)],
  ['many lines', 'data: x\n', `data: ${'x'.repeat(65_000)}\n`],
] as const) {
  test(`rejects an event without an end after some megabytes: ${title}`, (t) => {
    const parse = createEventStreamParser();
    let failure = parse(Buffer.from(first), []);
    let characters = first.length;
    for (; failure === undefined && characters < 10_000_000; characters += more.length) {
      failure = parse(Buffer.from(more), []);
    }
    t.is(failure?.fault, 'unreadable');
    t.true(characters < 6_000_000, `${characters} characters were read`);
  });
}

function decoded(pieces: readonly Uint8Array[]) {
  const decode = createUtf8Decoder();
  let all = '';
  for (const piece of pieces) {
    const { text, failure } = decode(piece);
    all += text;
    if (failure !== undefined) return { all, isWhole: false };
  }
  return { all, isWhole: true };
}

const characters = fc.string({ unit: 'binary' }).map((text) => Buffer.from(text));
const wrong = fc.constantFrom(
  [0xff],
  [0x80],
  [0xc0, 0x80],
  [0xe6, 0x9d],
  [0xed, 0xa0, 0x80],
  [0xf0, 0x9f, 0x8e],
  [0xf5],
);

test('gives out all text before the first bytes that are not UTF-8, however they are split', (t) => {
  fc.assert(
    fc.property(characters, fc.option(wrong), characters, (before, bad, after) => {
      const bytes = Buffer.concat([before, Buffer.from(bad ?? []), Buffer.from(bad ? 'x' : ''), after]);
      const expected =
        bad === null ? { all: bytes.toString(), isWhole: true } : { all: before.toString(), isWhole: false };
      t.deepEqual(decoded([bytes]), expected);
      t.deepEqual(decoded(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected);
      for (let at = 0; at <= bytes.length; at++) {
        t.deepEqual(decoded([bytes.subarray(0, at), bytes.subarray(at)]), expected, `split at ${at}`);
      }
    }),
    { numRuns: 200 },
  );
});
