import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { createEventStreamParser } from '../../../workers/backend-client/read-events.ts';

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
