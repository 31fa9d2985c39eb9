import { isUtf8 } from 'node:buffer';
import test from 'ava';
import fc from 'fast-check';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { createVectorCutter } from '../../../shared/endpoints/cut-vectors.ts';
import { vectorsAsBase64, vectorsAsNumbers } from '../../../shared/endpoints/embeddings.ts';

/** The answer without its vectors, and with them again. Fails as the cutter and the parser of the rest do. */
function cutIn(pieces: readonly Buffer[]) {
  const cutter = createVectorCutter('a mark ');
  for (const piece of pieces) cutter.take(piece);
  const { text, vectors, join } = cutter.end();
  JSON.parse(text);
  return { text, vectors, joined: Buffer.concat(join(text, vectors)) };
}

function inPieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.constant(1e-7),
  fc.constant(-0.5e21),
);
const base64 = fc.base64String();
const vector = fc.oneof(
  fc.array(fc.oneof({ weight: 9, arbitrary: number }, { weight: 1, arbitrary: fc.constant(null) })),
  fc.array(fc.array(number)),
  base64,
);
const anything = fc.jsonValue();
/** Objects that look like parts of an answer, also where none should be. */
const item = fc.record(
  {
    object: fc.constant('embedding'),
    index: fc.nat(),
    embedding: vector,
    other: anything,
    data: fc.array(fc.record({ embedding: vector })),
  },
  { requiredKeys: [] },
);
const answer = fc.record(
  {
    object: fc.constant('list'),
    data: fc.array(fc.oneof(item, anything)),
    embedding: vector,
    model: fc.string(),
    usage: anything,
    more: anything,
  },
  { requiredKeys: [] },
);
const cuts = fc.array(fc.nat(), { maxLength: 20 });
const spaces = fc.constantFrom(undefined, 1, '\t', '\r\n ');

test('whatever its pieces, an answer is the same with its vectors again, and has none without them', (t) => {
  fc.assert(
    fc.property(answer, spaces, cuts, (given, indent, at) => {
      const bytes = Buffer.from(JSON.stringify(given, undefined, indent));
      const { text, vectors, joined } = cutIn(inPieces(bytes, at));
      t.true(joined.equals(bytes));
      const embeddings = (given.data ?? [])
        .map((one: unknown) => (one as { embedding?: unknown } | null)?.embedding)
        .filter(isVector);
      t.is(vectors.length, embeddings.length);
      for (const [index, embedding] of embeddings.entries())
        t.deepEqual(JSON.parse(Buffer.concat(vectors[index] ?? []).toString()), JSON.parse(JSON.stringify(embedding)));
      t.is(text.split('a mark ').length - 1, vectors.length);
    }),
  );
});

/** What the cutter takes for a vector: it need not be one of numbers. */
const isVector = (value: unknown) => Array.isArray(value) || typeof value === 'string';

test('bytes that JSON does not allow are refused, wherever they are', (t) => {
  const hostile = fc.constantFrom(...'[]{}",:\\0-+.eE \n\u0001é'.split(''), 'null', 'NaN', '"embedding":[1', '\ud800');
  fc.assert(
    fc.property(
      answer,
      cuts,
      fc.array(fc.tuple(fc.nat(), fc.nat({ max: 3 }), hostile), { minLength: 1, maxLength: 3 }),
      (given, at, changes) => {
        let bytes = Buffer.from(JSON.stringify(given));
        for (const [place, removed, added] of changes) {
          const from = place % (bytes.length + 1);
          bytes = Buffer.concat([bytes.subarray(0, from), Buffer.from(added), bytes.subarray(from + removed)]);
        }
        const expected = parsed(() => JSON.parse(bytes.toString()));
        const found = parsed(() => JSON.parse(cutIn(inPieces(bytes, at)).joined.toString()));
        // Bytes that are no text are refused. What is cut is stricter only with texts: they have to be plain.
        if (found !== undefined) t.deepEqual(found, expected);
        else if (expected !== undefined && isUtf8(bytes))
          t.regex(bytes.toString(), /"embedding" ?:\s*("|.*(\[[^\]]*[^0-9eE+\-.,\s[\]nul]))/s);
      },
    ),
    { numRuns: 1_000 },
  );
});

function parsed(parse: () => unknown): { value: unknown } | undefined {
  try {
    return { value: parse() };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof BackendError) return undefined;
    throw error;
  }
}

test('a long vector is checked as JSON is, wherever its bytes are wrong', (t) => {
  const separator = fc.constantFrom(',', ' ,', ', ', '\t,\r\n', ',null,', '],[');
  const changes = fc.constantFrom('', '-', '0', '1', '.', 'e', 'e+', ',', ' ', ']', '[', 'null', 'x', '"');
  fc.assert(
    fc.property(
      fc.array(number, { minLength: 2_000, maxLength: 4_000 }),
      ...[separator, fc.nat(), changes, cuts],
      (numbers, between, place, change, at) => {
        const list = Buffer.from(`[[${numbers.map((value) => JSON.stringify(value)).join(between)}]]`);
        const where = place % list.length;
        const changed = Buffer.concat([list.subarray(0, where), Buffer.from(change), list.subarray(where + 1)]);
        for (const vector of [list, changed]) {
          const bytes = Buffer.concat([Buffer.from('{"data":[{"embedding":'), vector, Buffer.from('}]}')]);
          const expected = parsed(() => JSON.parse(bytes.toString()));
          const found = parsed(() => JSON.parse(cutIn(inPieces(bytes, at)).joined.toString()));
          t.deepEqual(found, expected);
        }
      },
    ),
    { numRuns: 50 },
  );
});

test('vectors are checked as JSON is', (t) => {
  const body = (value: string) => Buffer.from(`{"data":[{"embedding":${value}}]}`);
  const values = ['[]', '[1]', '[-0.5e+10 , 2E-3]', '[0]', '[null]', '[[1],[2,3]]', '"AAAA"', '""', ' [1]'];
  for (const value of values) t.is(cutIn([body(value)]).vectors.length, 1, value);
  const wrong = [
    '[01]',
    '[1,]',
    '[,1]',
    '[1 2]',
    '[-]',
    '[1.]',
    '[.5]',
    '[1e]',
    '[nul]',
    '[nulll]',
    '[NaN]',
    '["a"]',
    '[{}]',
    '[1',
    '"a',
    '"é"',
    '"\\n"',
    '"\n"',
  ];
  const refuses = (value: string) => parsed(() => cutIn([body(value)])) === undefined;
  for (const value of wrong) t.true(refuses(value), value);
  for (const first of wrong.filter((value) => value.endsWith(']')))
    for (const rest of ['5]', '5,5]', '5, 5,5]'])
      t.true(refuses(`[0.5,-1e9,${first.slice(1).replace(']', '')},${rest}`), `${first} ${rest}`);
  t.true(refuses('['.repeat(9) + ']'.repeat(9)));
  for (const value of ['{}', 'null', '5', '{"embedding":[1]}']) t.is(cutIn([body(value)]).vectors.length, 0, value);
});

test('an answer that comes byte by byte takes no more memory for each byte', (t) => {
  const bytes = Buffer.from(`{"data":[{"embedding":[${Array(100_000).fill(1).join(',')}]}]}`);
  const { vectors, joined } = cutIn(Array.from(bytes, (byte) => Buffer.of(byte)));
  t.true(joined.equals(bytes));
  t.true((vectors[0]?.length ?? 0) < 2_048);
});

test('base64 is converted into floats, and anything else stays', async (t) => {
  const numbers = [0.1, -1.5e-7, 0, 3.4028234e38, 1e-45, 12];
  const bytes = Buffer.from(Float32Array.from(numbers).buffer);
  const special = Buffer.from(Float32Array.of(1, Number.NaN, Number.POSITIVE_INFINITY).buffer);
  const given = [
    `"${bytes.toString('base64')}"`,
    '"AACAPwAAAEA="',
    `"${special.toString('base64')}"`,
    '[0.1, 2]',
    '""',
    '"no base64!"',
    '"AAAA"',
  ];
  let spent = 0;
  const budget = { spend: (more: number) => (spent += more) };
  const converted = await vectorsAsNumbers(
    given.map((text) => [Buffer.from(text.slice(0, 3)), Buffer.from(text.slice(3))].filter(({ length }) => length > 0)),
    budget,
  );
  const texts = converted.map((parts) => Buffer.concat(parts).toString());
  t.deepEqual(
    Array.from(JSON.parse(texts[0] ?? ''), Math.fround as (value: unknown) => number),
    numbers.map(Math.fround),
  );
  t.deepEqual(texts.slice(1), ['[1,2]', '[1,null,null]', '[0.1, 2]', '""', '"no base64!"', '"AAAA"']);
  t.true(spent > 0 && spent < 100, `${spent}`);
});

test('vectors that are converted let other work run, and what they grow by is bounded', async (t) => {
  const many = Buffer.from(new Float32Array(100_000).fill(1 / 3).buffer).toString('base64');
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const [vector = []] = await vectorsAsNumbers([[Buffer.from(`"${many}"`)]], { spend() {} });
  isOver = true;
  t.true(turns >= 5, `${turns}`);
  const numbers: number[] = JSON.parse(Buffer.concat(vector).toString());
  t.is(numbers.length, 100_000);
  t.true(numbers.every((number) => Math.fround(number) === Math.fround(1 / 3)));
  const full = new Error('full');
  const spend = () => {
    throw full;
  };
  t.is(await t.throwsAsync(vectorsAsNumbers([[Buffer.from(`"${many}"`)]], { spend })), full);
});

test('floats are converted into base64 as OpenAI’s clients read it, and anything else stays', async (t) => {
  const numbers = [0.1, -1.5e-7, 0, 3e38, 12];
  const expected = Buffer.from(Float32Array.from(numbers).buffer).toString('base64');
  const given = [JSON.stringify(numbers), '[ 1 ,\n2 ]', '[]', '[ ]', '"AAAA"', '[[1]]', '[1,null]'];
  const converted = await vectorsAsBase64(
    given.map((text) => [Buffer.from(text.slice(0, 3)), Buffer.from(text.slice(3))]),
  );
  const texts = converted.map((parts) => Buffer.concat(parts).toString());
  t.deepEqual(texts, [`"${expected}"`, '"AACAPwAAAEA="', '""', '""', '"AAAA"', '[[1]]', '[1,null]']);
});
