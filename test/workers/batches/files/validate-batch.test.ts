import test from 'ava';
import { Registry } from 'prom-client';
import type { Batch, StoredFile } from '../../../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../../../shared/errors.ts';
import { createValidateBatch } from '../../../../workers/batches/files/validate-batch.ts';
import { createWorkerMetrics } from '../../../../workers/metrics.ts';
import { batchOf, fileOf } from '../../../shared/store/batch-records.ts';
import { lineOf } from '../../../support/batch-client.ts';
import { batchPlan, lineRules } from '../../../support/batch-plan.ts';
import { memoryFiles } from '../../../support/memory-files.ts';

const never = new AbortController().signal;

type Given = {
  file?: Partial<StoredFile>;
  batch?: Partial<Batch>;
  requestsMax?: number;
  onRead?: () => void;
  timing?: Pick<Parameters<typeof createValidateBatch>[0], 'rest' | 'now'>;
};

function open(text: string, { file = {}, batch: given = {}, requestsMax = 200, onRead, timing }: Given = {}) {
  const batch = batchOf({ state: 'validating', ...given });
  const memory = memoryFiles({ [batch.inputFile]: text }, onRead);
  const stored = fileOf({ id: batch.inputFile, account: batch.account, ...file });
  const store = {
    batches: { findFile: async () => stored },
    files: memory.files,
  } as unknown as Parameters<typeof createValidateBatch>[0]['store']; // the only fields that are read
  const planFile = batchPlan({ batch: { requests_max: requestsMax } });
  const metrics = createWorkerMetrics(new Registry());
  const validate = createValidateBatch({
    store,
    currentPlanFile: () => planFile,
    rules: () => lineRules(planFile),
    metrics,
    ...timing,
  });
  return { ...memory, metrics, validate: (signal = never) => validate(batch, signal) };
}

/** Returns the code and the line of each fault, or the number of lines. */
async function verdict(text: string, given?: Given) {
  const found = await open(text, given).validate();
  return found.type === 'validated' ? found.total : found.errors.map(({ code, line }) => [code, line]);
}

const lines = (count: number, of: (line: number) => string = (line) => lineOf(`line ${line}`)) =>
  Array.from({ length: count }, (_, index) => `${of(index + 1)}\n`).join('');

test('counts the lines of a valid file, with and without a final line feed', async (t) => {
  t.is(await verdict(lines(3)), 3);
  t.is(await verdict(lines(3).trimEnd()), 3);
  t.is(await verdict(lines(3).replaceAll('\n', '\r\n')), 3);
});

test('a file may have as many lines as are allowed, and no more', async (t) => {
  t.is(await verdict(lines(200)), 200);
  t.deepEqual(await verdict(lines(201)), [['too_many_lines', 201]]);
  t.deepEqual(await verdict(lines(1_000)), [['too_many_lines', 201]], 'the rest is not read');
});

test('a file without a line is refused', async (t) => {
  t.deepEqual(await verdict(''), [['empty_file', null]]);
  for (const blank of ['\n', '\ufeff', ' \t\r\n\n']) t.deepEqual(await verdict(blank), [['empty_file', null]]);
});

test('reports the first hundred faults, in the order of their lines', async (t) => {
  const found = await verdict(lines(150, (line) => (line % 5 === 0 ? lineOf(`line ${line}`) : 'no JSON')));
  if (typeof found === 'number') return t.fail();
  t.is(found.length, 100);
  t.deepEqual(found[0], ['invalid_json_line', 1]);
  t.deepEqual(found.at(-1), ['invalid_json_line', 124]);
  const several = lines(80, () => '{"custom_id":1,"method":"GET"}');
  t.is(((await verdict(several)) as unknown[]).length, 100, 'the last line has as many of its faults as fit');
});

test('a byte order mark and lines of white space are skipped, and count in the numbers of the others', async (t) => {
  t.is(await verdict(`\ufeff${lines(3)}`), 3);
  t.is(await verdict(`\n\r\n${lines(3).replaceAll('\n', '\n \t\r\n')}\n`), 3);
  t.is(await verdict(lines(200).replaceAll('\n', '\n\n')), 200);
  t.deepEqual(await verdict(`\n\n${lineOf('a')}\n\nno JSON\n`), [['invalid_json_line', 5]]);
  t.deepEqual(await verdict(lines(201).replaceAll('\n', '\n\n')), [['too_many_lines', 401]]);
});

test('a duplicate custom id is reported with its first line, at any distance', async (t) => {
  const text = lines(150, (line) => lineOf(line === 150 ? 'line 2' : `${'x'.repeat(400)} ${line}`)).replace(
    `${'x'.repeat(400)} 2`,
    'line 2',
  );
  t.true(text.length > 100_000);
  const found = await open(text).validate();
  t.deepEqual(found, {
    type: 'refused',
    errors: [{ code: 'duplicate_custom_id', line: 150, param: 'custom_id', message: 'is that of line 2 as well' }],
  });
});

test('a duplicate custom id is found across several blocks of the file', async (t) => {
  const text = lines(100, (line) => lineOf(`line ${line % 99}`, { content: 'x'.repeat(10_000) }));
  t.true(text.length > 3 * 262_144);
  t.deepEqual(await verdict(text), [['duplicate_custom_id', 100]]);
});

test('custom ids that differ in case or in a space are different', async (t) => {
  t.is(await verdict(lines(4, (line) => lineOf(['a', 'A', 'a ', ' a'][line - 1] ?? ''))), 4);
});

test('lines whose bodies are refused do not end the batch, and their fields are counted', async (t) => {
  const refused = [
    lineOf('unknown model', { model: 'none' }),
    lineOf('not listed').replace('"model"', '"priority":-1,"x_vendor":1,"model"'),
    lineOf('a stream').replace('"model"', '"stream":true,"model"'),
    lineOf('no body').replace('"body"', '"other"'),
  ];
  const opened = open([...refused, lineOf('good'), ''].join('\n'));
  t.deepEqual(await opened.validate(), { type: 'validated', total: 5, model: 'small-chat' });
  const { values } = await opened.metrics.refusedFields.get();
  t.deepEqual(
    values.map(({ labels, value }) => [labels.field, value]),
    [
      ['priority', 1],
      ['other', 1],
    ],
  );
  t.deepEqual(await open(refused.join('\n')).validate(), { type: 'validated', total: 4 });
  t.deepEqual(await verdict([...refused, refused[0]].join('\n')), [['duplicate_custom_id', 5]]);
});

for (const [name, file] of Object.entries({
  'another account’s': { account: 'user:bob' },
  'being written': { state: 'writing' },
} as const)) {
  test(`a file that is ${name} is reported as not found`, async (t) => {
    t.deepEqual(await verdict(lines(1), { file }), [['file_not_found', null]]);
  });
}

test('validation fails, to be tried again, while the file is being deleted, because it may come back', async (t) => {
  await t.throwsAsync(verdict(lines(1), { file: { state: 'deleting' } }), { message: /being deleted/ });
});

test('a file that is removed during validation is reported as not found', async (t) => {
  let readings = 0;
  const text = lines(150, (line) => lineOf(`line ${line}`, { content: 'x'.repeat(10_000) }));
  const given = open(text, {
    onRead: () => {
      if (++readings === 3) given.remove();
    },
  });
  t.like(await given.validate(), { type: 'refused', errors: { 0: { code: 'file_not_found', line: null }, length: 1 } });
  t.is(readings, 3);
});

test('an unavailable store and a shutdown decide nothing', async (t) => {
  const given = open(lines(3));
  const unavailable = temporarilyUnavailable(new Error('unavailable'));
  given.fail(unavailable);
  await t.throwsAsync(given.validate(), { is: unavailable });
  const reason = new Error('shutdown');
  await t.throwsAsync(given.validate(AbortSignal.abort(reason)), { is: reason });
});

test('validation rests after work that blocked the event loop, for as long as the work took', async (t) => {
  let nowMs = 0;
  const rests: number[] = [];
  const timing = { now: () => (nowMs += 4), rest: async (workMs: number) => void rests.push(workMs) };
  t.is(await verdict(lines(7), { timing }), 7);
  t.deepEqual(rests, [12, 12], 'after three lines of 4 ms each');
});
