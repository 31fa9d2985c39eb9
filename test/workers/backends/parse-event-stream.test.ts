import test from 'ava';
import { BackendError } from '../../../workers/backends/backend-error.ts';
import { parseEventStream } from '../../../workers/backends/parse-event-stream.ts';

async function* pieces(...parts: Uint8Array[]) {
  yield* parts;
}

async function events(...parts: (string | Uint8Array)[]): Promise<string[]> {
  const bytes = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  return (await Array.fromAsync(parseEventStream(pieces(...bytes)))).flat();
}

const recorded: Record<string, { bytes: string; data: string[] }> = {
  'lines end by LF': {
    bytes: 'data: {"a":"東京 👩‍👩‍👧‍👦"}\n\ndata: {"b":"é"}\n\ndata: [DONE]\n\n',
    data: ['{"a":"東京 👩‍👩‍👧‍👦"}', '{"b":"é"}', '[DONE]'],
  },
  'lines end by CRLF': { bytes: 'data: {"a":"é"}\r\n\r\ndata: [DONE]\r\n\r\n', data: ['{"a":"é"}', '[DONE]'] },
  'lines end by CR': { bytes: 'data: {"a":"é"}\r\rdata: [DONE]\r\rdata: x', data: ['{"a":"é"}', '[DONE]'] },
  'comments, names and ids stand in between': {
    bytes:
      ': keep-alive\n\nevent: message\nid: 7\ndata: one\n\n: OPENROUTER PROCESSING\n\nretry: 3\ndata: two\n\n:\n\n',
    data: ['one', 'two'],
  },
  'data stands on several lines': { bytes: 'data: {\ndata:   "a": 1\ndata: }\n\n', data: ['{\n  "a": 1\n}'] },
  'no space follows the colon': { bytes: 'data:one\n\ndata:[DONE]\n\n', data: ['one', '[DONE]'] },
  'a byte order mark comes first': { bytes: '\uFEFFdata: one\n\n', data: ['one'] },
};

for (const [title, { bytes, data }] of Object.entries(recorded)) {
  test(`reads the same events wherever the bytes are split: ${title}`, async (t) => {
    const whole = Buffer.from(bytes);
    t.deepEqual(await events(whole), data);
    for (let at = 0; at <= whole.length; at++) {
      t.deepEqual(await events(whole.subarray(0, at), whole.subarray(at)), data, `split at ${at}`);
    }
    t.deepEqual(await events(...Array.from(whole, (byte) => Uint8Array.of(byte))), data, 'byte by byte');
  });
}

test('gives an event out as soon as its last byte is there', async (t) => {
  let asked = 0;
  async function* slowly() {
    for (const part of ['data: one\n', '\ndata: two', '\n\n']) {
      asked += 1;
      yield Buffer.from(part);
    }
  }
  const reading = parseEventStream(slowly());
  t.deepEqual(await reading.next(), { done: false, value: ['one'] });
  t.is(asked, 2);
  t.deepEqual(await reading.next(), { done: false, value: ['two'] });
});

test('gives out those that come at once together, and nothing where none is complete', async (t) => {
  const bytes = ['data: one\n\n: a comment\n\ndata: two\n\ndata: th', ': a comment\n', 'ree\n\n'].map((part) =>
    Buffer.from(part),
  );
  t.deepEqual(await Array.fromAsync(parseEventStream(pieces(...bytes))), [['one', 'two'], ['th: a comment']]);
});

test('an event that the stream ends in the middle of is none', async (t) => {
  t.deepEqual(await events('data: one\n\ndata: two'), ['one']);
  t.deepEqual(await events(), []);
});

const invalid: [string, (string | Uint8Array)[]][] = [
  ['a byte that is never UTF-8', ['data: ', Uint8Array.of(0xff), '\n\n']],
  ['a character cut short by other text', ['data: ', Uint8Array.of(0xe6, 0x9d), 'x\n\n']],
];

for (const [title, parts] of invalid) {
  test(`cannot read ${title}, and still gives out what came before, however it is split`, async (t) => {
    const bytes = ['data: before 🎉\n\n', ...parts].map((part) => Buffer.from(part as string)); // or bytes: either is taken
    const whole = Buffer.concat(bytes);
    const splits = Array.from(whole, (_, at) => [whole.subarray(0, at), whole.subarray(at)]);
    for (const split of [[whole], bytes, Array.from(whole, (byte) => Uint8Array.of(byte)), ...splits]) {
      const seen: string[] = [];
      const reading = (async () => {
        for await (const events of parseEventStream(pieces(...split))) seen.push(...events);
      })();
      t.is((await t.throwsAsync(reading, { instanceOf: BackendError }))?.outcome, 'unreadable');
      t.deepEqual(seen, ['before 🎉']);
    }
  });
}

test('what follows [DONE] is not looked at, even if it comes with it and is not UTF-8', async (t) => {
  const reading = parseEventStream(pieces(Buffer.concat([Buffer.from('data: [DONE]\n\n'), Uint8Array.of(0xff)])));
  t.deepEqual(await reading.next(), { done: false, value: ['[DONE]'] });
});

for (const [title, first, more] of [
  ['one line', 'data: ', 'x'.repeat(65_536)],
  ['many lines', 'data: x\n', `data: ${'x'.repeat(65_000)}\n`],
] as const) {
  test(`gives up an event without an end after some megabytes: ${title}`, async (t) => {
    let characters = 0;
    async function* endless() {
      yield Buffer.from(first);
      while (true) {
        characters += more.length;
        yield Buffer.from(more);
      }
    }
    const error = await t.throwsAsync(Array.fromAsync(parseEventStream(endless())), { instanceOf: BackendError });
    t.is(error?.outcome, 'unreadable');
    t.true(characters < 6_000_000, `${characters} characters were taken`);
  });
}
