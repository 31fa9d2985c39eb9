import test from 'ava';
import type { Batch } from '../../../../shared/batches/batch.ts';
import { bytesBesideFile, enterRoom, newRoomEntry } from '../../../../shared/batches/batch-room.ts';
import { readAccountBytes } from '../../../../shared/store/records/batch-store.ts';
import { createWriteBatchFiles } from '../../../../workers/batches/files/write-batch-files.ts';
import { resultFileOf } from '../../../../workers/batches/lines/batch-job.ts';
import { lineBytesOf, presentLine } from '../../../../workers/batches/lines/line-results.ts';
import { resultOf } from '../../../shared/store/batch-records.ts';
import { type BatchSide, openBatchSide } from '../../../support/batch-side.ts';
import { died, dying, forEachDeath } from '../../../support/dying.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';
import { openResultRoom } from '../../../support/result-room.ts';

let own: RedisDatabase;
const signal = new AbortController().signal;
const now = Date.UTC(2030, 4, 15);
const dayMs = 86_400_000;
const noLimits = { batchesMax: 100, filesMax: 1_000, bytesMax: 1e9, tokensMax: undefined };

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

const error = { code: 'batch_cancelled', message: 'No.' };
const failed = { failed: true, status: null, body: null, error };

async function open(lines: number, isFailed: (line: number) => boolean = (line) => line % 3 === 0, body?: string) {
  const side = await openBatchSide(own.redis, { lines, ending: 'completed' });
  const results = Array.from({ length: lines }, (_, index) => index + 1).map((line) =>
    resultOf(side.batch.id, line, isFailed(line) ? failed : { ...(body && { body }) }),
  );
  await side.store.batches.insertResults(results.toReversed());
  return Object.assign(side, { expected: results });
}

const write = (side: BatchSide, given: { signal?: AbortSignal; at?: number } = {}) =>
  createWriteBatchFiles({ store: side.store, filesKeptDays: () => 30 })(side.batch, {
    now: given.at ?? now,
    signal,
    ...given,
  });

const fileNames = ({ id }: Batch) => ({ outputFile: resultFileOf(id, 'output'), errorFile: resultFileOf(id, 'error') });

test.serial('each result is one line of one of the files, in the order of the input', async (t) => {
  await using side = await open(100);
  const files = fileNames(side.batch);
  const sum = (name: 'promptTokens' | 'cachedTokens' | 'completionTokens') =>
    side.expected.reduce((total, result) => total + result[name], 0);
  const usage = {
    promptTokens: sum('promptTokens'),
    cachedTokens: sum('cachedTokens'),
    completionTokens: sum('completionTokens'),
  };
  t.true(usage.promptTokens > 0);
  const written = { type: 'written', completed: 67, failed: 33, usage, errorCounts: { batch_cancelled: 33 }, ...files };
  t.deepEqual(await write(side), written);
  t.deepEqual(await write(side), written, 'also if the files were written before');
  for (const [file, of] of [
    [files.outputFile, false],
    [files.errorFile, true],
  ] as const) {
    const expected = side.expected
      .filter((result) => result.failed === of)
      .map(presentLine)
      .join('');
    t.is(await side.read(file), expected);
    t.like(await side.store.batches.findFile(file), {
      ...{
        account: side.account,
        keyId: side.batch.keyId,
        purpose: 'batch_output',
        state: 'ready',
        lines: of ? 33 : 67,
      },
      ...{ bytes: Buffer.byteLength(expected), createdAt: new Date(now), expiresAt: new Date(now + 30 * dayMs) },
    });
  }
});

test.serial('an empty file is not written', async (t) => {
  await using answered = await open(3, () => false);
  t.is((await write(answered)).errorFile, undefined);
  t.is(await answered.store.batches.findFile(fileNames(answered.batch).errorFile), undefined);
  await using refused = await open(3, () => true);
  t.is((await write(refused)).outputFile, undefined);
  await using none = await open(0);
  t.deepEqual(await write(none), {
    ...{ type: 'written', completed: 0, failed: 0 },
    usage: { promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
    errorCounts: {},
  });
});

test.serial('failed lines are counted by the code of their error or the status of their response', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 60, ending: 'completed' });
  const answered = (line: number) => ({ failed: true, status: 400 + line, body: '{}', error: null });
  const results = Array.from({ length: 60 }, (_, index) => index + 1).map((line) =>
    resultOf(side.batch.id, line, line <= 3 ? failed : answered(line)),
  );
  await side.store.batches.insertResults(results);
  const { errorCounts } = await write(side);
  t.like(errorCounts, { batch_cancelled: 3, status_404: 1, status_452: 1, other: 8 });
  t.is(Object.keys(errorCounts).length, 51, 'no more than 50 codes and one for all others');
});

test.serial('large results are written completely', async (t) => {
  await using side = await open(12, (line) => line === 7, JSON.stringify('ü'.repeat(300_000)));
  await write(side);
  const expected = side.expected
    .filter((result) => !result.failed)
    .map(presentLine)
    .join('');
  t.is(await side.read(fileNames(side.batch).outputFile), expected);
});

test.serial(
  'wherever a worker is killed, the next one writes both files, and nothing counts twice for the account',
  async (t) => {
    let deaths = 0;
    const calls = await forEachDeath(async (death) => {
      await using side = await open(9);
      const { account, batch, store } = side;
      const entry = newRoomEntry({ lines: 9, tokens: 1, since: new Date(now) });
      await store.batches.changeRoom(account, enterRoom(batch.id, entry, noLimits));
      const sizes = side.expected.map((result) => ({ bytes: lineBytesOf(result), isFailure: result.failed }));
      await openResultRoom(store, () => 1e9).take({ account, batch: batch.id }, sizes);
      const held = async () => (await readAccountBytes(store.batches, account)).bytes;
      const [most, input] = [await held(), batch.inputFile];

      const { parts, hasDied } = dying({ batches: store.batches, files: store.files }, death);
      const first = createWriteBatchFiles({ store: parts, filesKeptDays: () => 30 })(batch, { now, signal });
      const failure = await first.then(
        () => undefined,
        (error: unknown) => error,
      );
      if (!hasDied()) return 'lived';
      t.is(failure, died);
      deaths += 1;
      t.true((await held()) <= most + 2 * bytesBesideFile, JSON.stringify(death));

      const { outputFile, errorFile } = await write(side, { at: now + 5_000 });
      const room = await store.batches.findRoom(account);
      t.is(room.entries[batch.id]?.bytes, 0);
      const texts = [await side.read(outputFile), await side.read(errorFile)];
      t.deepEqual(
        texts.map((text) => text.split('\n').length),
        [7, 4],
      );
      const inputBytes = (await store.batches.findFile(input))?.bytes ?? 0;
      const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), inputBytes);
      t.is(await held(), bytes + 3 * bytesBesideFile);
      return 'died';
    });
    t.true(calls >= 8, String(calls));
    t.is(deaths, 2 * calls);
  },
);

test.serial('after a worker was killed while it wrote a file, the next one writes it from the beginning', async (t) => {
  await using side = await open(9);
  const { outputFile } = fileNames(side.batch);
  const stop = new AbortController();
  const { listResults } = side.store.batches;
  const reason = new Error('killed');
  side.store.batches.listResults = async (...page) => {
    const results = await listResults.apply(side.store.batches, page);
    stop.abort(reason);
    return results;
  };
  await t.throwsAsync(write(side, { signal: stop.signal }), { is: reason });
  side.store.batches.listResults = listResults;
  t.is((await side.store.batches.findFile(outputFile))?.state, 'writing');
  t.like(await write(side), { outputFile });
  t.is((await side.read(outputFile)).split('\n').length, 7);
  t.is((await side.store.batches.findFile(outputFile))?.state, 'ready');
});

test.serial('two workers that write the files at once write the same ones', async (t) => {
  await using side = await open(60);
  const [one, other] = await Promise.all([write(side), write(side)]);
  t.deepEqual(one, other);
  t.is((await side.read(one.outputFile)).split('\n').length, 41);
});

test.serial('fails when results are missing, and leaves the file that another worker wrote as it is', async (t) => {
  await using side = await open(9);
  const { outputFile } = fileNames(side.batch);
  const { listResults } = side.store.batches;
  const whole = Promise.withResolvers<string>();
  side.store.batches.listResults = async (...page) => {
    side.store.batches.listResults = listResults;
    await write(side);
    whole.resolve(await side.read(outputFile));
    await side.store.batches.removeResults(side.batch.id, 100);
    return listResults.apply(side.store.batches, page);
  };
  await t.throwsAsync(write(side), { message: /6 results of .* are missing/ });
  t.is((await whole.promise).split('\n').length, 7);
  t.is(await side.read(outputFile), await whole.promise);
});

test.serial('fails when the file is removed while it is written', async (t) => {
  await using side = await open(9);
  const { outputFile } = fileNames(side.batch);
  const { listResults } = side.store.batches;
  side.store.batches.listResults = async (...page) => {
    side.store.batches.listResults = listResults;
    await side.store.batches.removeFile(outputFile); // as the removal of abandoned uploads does
    return listResults.apply(side.store.batches, page);
  };
  await t.throwsAsync(write(side), { message: /removed/ });
  t.like(await write(side), { outputFile });
  t.is((await side.store.batches.findFile(outputFile))?.state, 'ready');
});
