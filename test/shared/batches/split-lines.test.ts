import test from 'ava';
import fc from 'fast-check';
import { createLineSplitter, type FileLine } from '../../../shared/batches/split-lines.ts';

/** Every line of these chunks. `text` is undefined for a line that is too long. */
function split(chunks: readonly Uint8Array[], options: Parameters<typeof createLineSplitter>[0] = { bytesMax: 100 }) {
  const splitter = createLineSplitter(options);
  const lines: FileLine[] = [];
  for (const chunk of chunks) lines.push(...splitter.push(chunk));
  return [...lines, ...splitter.end()].map(({ number, from, bytes }) => ({ number, from, text: bytes?.toString() }));
}

const texts = (text: string, bytesMax = 100) => split([Buffer.from(text)], { bytesMax }).map(({ text }) => text);

/** Cuts the bytes into pieces of these lengths. */
function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  let from = 0;
  for (const length of lengths) {
    chunks.push(Buffer.from(bytes.subarray(from, from + length))); // a copy, as a connection delivers it
    from += length;
  }
  return [...chunks, bytes.subarray(from)];
}

test('a line ends at its line feed or at the end of the file', (t) => {
  t.deepEqual(texts(''), []);
  t.deepEqual(texts('a'), ['a']);
  t.deepEqual(texts('a\n'), ['a']);
  t.deepEqual(texts('a\nb'), ['a', 'b']);
  t.deepEqual(texts('a\r\nb\r\n'), ['a\r', 'b\r'], 'a carriage return has no special meaning');
});

test('a line has its number and its byte offset in the file', (t) => {
  t.deepEqual(split([Buffer.from('é\n\nb\nlast')]), [
    { number: 1, from: 0, text: 'é' },
    { number: 3, from: 4, text: 'b' },
    { number: 4, from: 6, text: 'last' },
  ]);
});

test('a byte order mark and lines of white space are skipped, however they arrive', (t) => {
  const whole = Buffer.from('\ufeff a\n\n \t\r\n\u00a0\u2003\n\ufeffb\n\v\f');
  const expected = [
    { number: 1, from: 3, text: ' a' },
    { number: 5, from: 17, text: '\ufeffb' },
  ];
  t.deepEqual(split([whole]), expected);
  t.deepEqual(split([...whole].map((byte) => Buffer.of(byte))), expected);
  for (const blank of ['\n', '\n\n\r\n', '\ufeff', '\ufeff\n', ' ', '\u3000'])
    t.deepEqual(texts(blank), [], JSON.stringify(blank));
});

test('starts in the middle of a file at the given line and byte', (t) => {
  const lines = split([Buffer.from('b\nc')], { bytesMax: 100, start: { line: 7, byte: 1_000 } });
  t.deepEqual(lines, [
    { number: 7, from: 1_000, text: 'b' },
    { number: 8, from: 1_002, text: 'c' },
  ]);
});

test('a line of the maximum length is returned, a longer one is reported once, and the lines after it are correct', (t) => {
  t.deepEqual(texts('12345\n1234\n', 5), ['12345', '1234']);
  t.deepEqual(texts('12345', 5), ['12345']);
  t.deepEqual(texts('a\n123456\nb\n', 5), ['a', undefined, 'b']);
  t.deepEqual(texts('123456', 5), [undefined]);
  t.deepEqual(texts('123456\n', 5), [undefined]);
  t.deepEqual(
    split(
      [...'123456789\nb'].map((character) => Buffer.from(character)),
      { bytesMax: 5 },
    ),
    [
      { number: 1, from: 0, text: undefined },
      { number: 2, from: 10, text: 'b' },
    ],
  );
});

test('a line that is too long is reported as soon as it exceeds the bound', (t) => {
  const splitter = createLineSplitter({ bytesMax: 5 });
  t.deepEqual(splitter.push(Buffer.from('12345')), []);
  t.deepEqual(splitter.push(Buffer.from('6')), [{ number: 1, from: 0, bytes: undefined }]);
  t.deepEqual(splitter.push(Buffer.from('789')), []);
  t.deepEqual(splitter.end(), []);
});

test('a returned line does not change when more chunks follow', (t) => {
  const splitter = createLineSplitter({ bytesMax: 100 });
  splitter.push(Buffer.from('on'));
  const [first] = splitter.push(Buffer.from('e\ntw'));
  const [second] = splitter.push(Buffer.from('o\nthree'));
  splitter.push(Buffer.from('x'.repeat(50)));
  t.deepEqual([first?.bytes?.toString(), second?.bytes?.toString()], ['one', 'two']);
});

test('the lines do not depend on how the bytes are split into chunks', (t) => {
  const bytes = fc
    .array(fc.oneof(fc.constantFrom('\n', '\r\n', '\n\n', ''), fc.string({ unit: 'binary', maxLength: 12 })))
    .map((pieces) => Buffer.from(pieces.join('')));
  fc.assert(
    fc.property(bytes, fc.array(fc.nat({ max: 9 })), fc.integer({ min: 1, max: 20 }), (whole, lengths, bytesMax) => {
      const isWhite = (line: string) => Buffer.from(line, 'latin1').toString().trim() === '';
      const all = whole.toString('latin1').split('\n');
      const expected = all.filter((line) => line.length > bytesMax || !isWhite(line));
      const splitter = createLineSplitter({ bytesMax });
      const lines = cut(whole, lengths).flatMap((chunk) => splitter.push(chunk));
      lines.push(...splitter.end());
      t.deepEqual(
        lines.map(({ bytes: line }) => line?.toString('latin1')),
        expected.map((line) => (line.length > bytesMax ? undefined : line)),
      );
      for (const { from, number } of lines) {
        t.is(whole.subarray(0, from).toString('latin1').split('\n').length, number);
      }
    }),
    { numRuns: 500 },
  );
});

test('an unfinished line is held as a copy, which keeps no chunk in memory', (t) => {
  const splitter = createLineSplitter({ bytesMax: 100 });
  const chunk = Buffer.from('a');
  for (let byte = 0; byte < 100; byte++) splitter.push(chunk);
  chunk.fill('b');
  t.deepEqual(
    splitter.end().map(({ bytes }) => bytes?.toString()),
    ['a'.repeat(100)],
  );
});
