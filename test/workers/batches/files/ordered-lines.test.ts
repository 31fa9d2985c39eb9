import test from 'ava';
import type { Batch } from '../../../../shared/batches/batch.ts';
import { FileGone } from '../../../../shared/batches/split-lines.ts';
import { createOrderedLines, createReadAhead } from '../../../../workers/batches/files/ordered-lines.ts';
import type { BatchRules } from '../../../../workers/batches/files/parse-line.ts';
import { createLineCursor } from '../../../../workers/batches/files/read-lines.ts';
import { lineOf } from '../../../support/batch-client.ts';
import { batchPlan, lineRules } from '../../../support/batch-plan.ts';
import { memoryFiles } from '../../../support/memory-files.ts';

const plan = lineRules(batchPlan());

type Given = { readAhead?: ReturnType<typeof createReadAhead>; start?: Batch['position']; rules?: () => BatchRules };

/** The lines of a file, each of which has the beginning of its prompt as its key. */
function open(texts: readonly string[], given: Given = {}) {
  const memory = memoryFiles({ file: texts.join('\n') });
  const { readAhead = createReadAhead(), start = { line: 1, byte: 0 } } = given;
  const rules = given.rules ?? (() => ({ ...plan, endpoint: '/v1/chat/completions', affinityOf }));
  const cursor = createLineCursor({ files: memory.files, inputFile: 'file', start, rules, isToSkip: () => false });
  const lines = createOrderedLines({ cursor, rules, readAhead });
  return {
    ...memory,
    lines,
    /** The numbers of the next lines, in the order in which they come. */
    async take(count = Number.POSITIVE_INFINITY): Promise<number[]> {
      const taken: number[] = [];
      while (taken.length < count) {
        const line = await lines.peek();
        if (line === undefined) break;
        lines.pass();
        taken.push(line.place.line);
      }
      return taken;
    },
  };
}

const affinityOf = (_endpoint: unknown, request: object) => {
  const { messages } = request as { messages: { content: string }[] }; // as `lineAbout` writes them
  return { keys: messages[0]?.content.split('|').slice(0, -1) ?? [], isFirstTurn: true };
};

const lineAbout = (content: string) => lineOf('id', { content });

test('lines with the same beginning come one after another, and those with a longer common one closest', async (t) => {
  const texts = ['b|1|x', 'a|2|x', 'b|2|x', 'a|1|x', 'b|1|x', 'c|x', 'a|2|x', 'a|1|x'].map(lineAbout);
  t.deepEqual(await open(texts).take(), [4, 8, 2, 7, 1, 5, 3, 6]);
});

test('lines without keys stay in the order of the file, and so do lines with the same', async (t) => {
  t.deepEqual(await open(['x', 'y', 'z'].map(lineAbout)).take(), [1, 2, 3]);
  t.deepEqual(await open(['a|x', 'a|y', 'a|z'].map(lineAbout)).take(), [1, 2, 3]);
});

test('of a long file, 256 lines are ordered at a time, and each line has its turn, whatever comes behind it', async (t) => {
  const texts = Array.from({ length: 2_000 }, (_, index) => lineAbout(`${String.fromCharCode(97 + (index % 26))}|x`));
  const taken = await open(texts).take();
  t.deepEqual(
    taken.toSorted((one, other) => one - other),
    texts.map((_, index) => index + 1),
  );
  for (const [place, line] of taken.entries()) t.true(line <= place + 256, `line ${line} came as number ${place + 1}`);
  const letters = taken.map((line) => (line - 1) % 26);
  const changes = letters.filter((letter, index) => index > 0 && letter !== letters[index - 1]).length;
  t.true(changes < 200, `${changes} changes instead of 1,999`);
});

test('at most a mebibyte is held of a batch, and one line if all of a worker is used', async (t) => {
  const long = 'x'.repeat(300_000);
  const texts = ['c', 'b', 'a', 'd', 'e', 'a'].map((key) => lineAbout(`${key}|${long}`));
  t.deepEqual(
    await open(texts).take(),
    [3, 2, 1, 4, 5, 6],
    'three lines at a time: the last is read behind the first ones',
  );
  const readAhead = createReadAhead();
  readAhead.add(16_777_216);
  t.deepEqual(await open(texts, { readAhead }).take(), [1, 2, 3, 4, 5, 6]);
  readAhead.add(-16_777_216);
  const held = open(texts, { readAhead });
  await held.lines.peek();
  t.false(readAhead.hasRoom(16_777_216));
  await held.lines.close();
  t.true(readAhead.hasRoom(16_777_216), 'a closed batch holds nothing');
});

test('the position is that of the first line that was not passed, and the end comes after the last', async (t) => {
  const texts = ['b|x', 'c|x', 'a|x'].map(lineAbout);
  const begins = texts.map((_, index) => texts.slice(0, index).reduce((sum, text) => sum + text.length + 1, 0));
  const { lines, take } = open(texts);
  t.deepEqual(await take(1), [3]);
  t.deepEqual(lines.position(), { line: 1, byte: 0 });
  t.deepEqual(await take(1), [1]);
  t.deepEqual(lines.position(), { line: 2, byte: begins[1] });
  t.false(lines.isAtEnd());
  t.deepEqual(await take(), [2]);
  t.true(lines.isAtEnd());
  t.is(lines.position().line, 4);
});

test('a line whose place in the order is passed again and again has its turn after 1,024 others', async (t) => {
  const texts = Array.from({ length: 2_000 }, (_, index) => lineAbout(index === 300 ? 'a|x' : 'b|x'));
  const taken = await open(texts).take();
  t.is(taken.indexOf(301), 300 + 1_024);
  t.is(new Set(taken).size, 2_000);
});

test('a batch that is closed keeps its position, and holds no bytes, also if it was reading', async (t) => {
  const readAhead = createReadAhead();
  const { lines, take } = open(['b|x', 'a|x', 'c|x'].map(lineAbout), { readAhead });
  t.deepEqual(await take(1), [2]);
  await lines.close();
  t.deepEqual(lines.position(), { line: 1, byte: 0 });
  lines.pass();
  t.deepEqual(lines.position(), { line: 1, byte: 0 });
  await lines.close();
  const reading = open(['b|x', 'a|x'].map(lineAbout), { readAhead });
  const peeking = reading.lines.peek();
  await reading.lines.close();
  await peeking;
  t.true(readAhead.hasRoom(16_777_216));
});

test('a store that fails loses no line, and neither does a call that is repeated', async (t) => {
  const { take, lines, fail } = open(['b|x', 'a|x'].map(lineAbout));
  fail(new FileGone('gone'));
  await t.throwsAsync(lines.peek(), { instanceOf: FileGone });
  t.is(await lines.peek(), await lines.peek());
  t.deepEqual(await take(), [2, 1]);
});

test('a line that was read ahead obeys the plan file of the moment when it is queued', async (t) => {
  const before = { ...plan, endpoint: '/v1/chat/completions', affinityOf };
  let rules: BatchRules = before;
  const { lines } = open(['b|x', 'a|x'].map(lineAbout), { rules: () => rules });
  t.true('parsed' in ((await lines.peek())?.read ?? {}));
  rules = { ...before, models: {} };
  t.true('refused' in ((await lines.peek())?.read ?? {}));
  lines.pass();
  t.true('refused' in ((await lines.peek())?.read ?? {}));
  rules = { ...before, models: { ...before.models } };
  t.true('parsed' in ((await lines.peek())?.read ?? {}));
});
