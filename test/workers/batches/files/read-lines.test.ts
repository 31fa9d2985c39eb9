import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import fc from 'fast-check';
import { createLineSplitter, FileGone, type FileLine, readLines } from '../../../../shared/batches/split-lines.ts';
import { readLine } from '../../../../workers/batches/files/read-lines.ts';
import { memoryFiles } from '../../../support/memory-files.ts';

const lineBytesMax = 4_194_304;
const anyText = fc
  .array(fc.oneof(fc.constant('\n'), fc.constant('\r\n'), fc.string({ unit: 'binary', maxLength: 30 })), {
    maxLength: 40,
  })
  .map((parts) => Buffer.from(parts.join('')));

function split(bytes: Uint8Array): FileLine[] {
  const splitter = createLineSplitter({ bytesMax: lineBytesMax });
  return [...splitter.push(bytes), ...splitter.end()];
}

const shown = (lines: readonly FileLine[]) =>
  lines.map(({ bytes, ...place }) => ({ ...place, text: bytes?.toString('hex') }));

test('from any position, the lines are the same as those of the complete file', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyText, async (bytes) => {
      await nextTurn(); // other tests of this process wait for theirs
      const all = split(bytes);
      const { files } = memoryFiles({ file: bytes });
      for (const [index, { number, from }] of all.entries()) {
        const read = await Array.fromAsync(readLines(files, 'file', { line: number, byte: from }));
        t.deepEqual(shown(read), shown(all.slice(index)));
      }
    }),
    { numRuns: 100 },
  );
});

test('a file is read in blocks, which may cut lines anywhere', async (t) => {
  const block = 131_072;
  for (const length of [block - 1, block, block + 1, 2 * block, 3 * block - 1]) {
    const bytes = Buffer.alloc(length, 'abcdefg\n'.repeat(31).concat('x'.repeat(1_000), '\n'));
    let readings = 0;
    const { files } = memoryFiles({ file: bytes }, () => readings++);
    const read = await Array.fromAsync(readLines(files, 'file', { line: 1, byte: 0 }));
    t.deepEqual(shown(read), shown(split(bytes)), String(length));
    t.is(readings, Math.floor(length / block) + 1);
  }
});

test('reads one line by its first byte and length', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyText, async (bytes) => {
      await nextTurn();
      const { files } = memoryFiles({ file: bytes });
      for (const line of split(bytes)) {
        const place = { number: line.number, from: line.from, length: line.bytes?.length ?? 0 };
        t.deepEqual(shown([await readLine(files, 'file', place)]), shown([line]));
      }
    }),
    { numRuns: 50 },
  );
});

test('a line that is too long has no bytes, and the lines after it are read', async (t) => {
  const { files } = memoryFiles({ file: Buffer.from(`${'x'.repeat(lineBytesMax + 1)}\nnext\n`) });
  const read = await Array.fromAsync(readLines(files, 'file', { line: 1, byte: 0 }));
  t.deepEqual(
    read.map(({ number, bytes }) => [number, bytes?.toString()]),
    [
      [1, undefined],
      [2, 'next'],
    ],
  );
});

test('a file that does not exist, or is removed meanwhile, is not taken for a short one', async (t) => {
  const { files, remove } = memoryFiles({ file: Buffer.from('one line\n'.repeat(60_000)) });
  await t.throwsAsync(Array.fromAsync(readLines(files, 'other', { line: 1, byte: 0 })), { instanceOf: FileGone });
  await t.throwsAsync(readLine(files, 'other', { number: 1, from: 0, length: 8 }), { instanceOf: FileGone });
  let seen = 0;
  const reading = async () => {
    for await (const _line of readLines(files, 'file', { line: 1, byte: 0 })) if (++seen === 100) remove();
  };
  await t.throwsAsync(reading(), { instanceOf: FileGone });
  t.true(seen >= 100 && seen < 60_000);
});
