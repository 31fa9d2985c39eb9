import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { ulid } from 'ulid';
import { z } from 'zod';
import { type BatchResult, lineBytesMax } from '../../../shared/batches/batch.ts';
import type { LineRecords } from '../../../shared/store/records/line-records.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf, resultOf, retryOf } from './batch-records.ts';
import { type Contract, provesOnStore, type StoreHome } from './store-contract.ts';

type Inserter = ChildProcessByStdio<Writable, Readable, null>;

const inserter = fileURLToPath(new URL('insert-results-from-process.ts', import.meta.url));

/** The guarantees of every store for the lines of batches. */
export function testLinesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('the first result of a line is kept, and a later insert returns it', keepsFirst);
  prove('results of all shapes are found unchanged', keepsShapes);
  prove('results are listed in order of their lines, page by page, for one batch', listsResults);
  prove('a page of large results ends early, and the next one continues', listsLargeResults);
  prove('thousands of ended lines are counted, and listed in order', countsLines);
  prove('what results say is found and listed without their bodies', findsOutcomes);
  prove(
    'a line is found with the state of its batch, its latest request, the retry of that, and its result',
    findsLine,
  );
  prove('a retry is stored only after the one before it, and storing it again succeeds', guardsRetries);
  prove('results and retries of one batch are removed in pieces', removesResults);
}

/** The same under concurrency, for serial tests, because they make many calls at once. */
export function testLineRacesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('concurrent inserts for the same line all return the same result', agreesOnResults);
  prove('concurrent inserts of several processes for the same lines all return the same results', agreesOverProcesses);
  prove('of 50 concurrent retries of a line one is stored', notesRetryOnce);
}

const newBatch = () => `batch_${ulid()}`;
const numbers = (count: number, from = 1) => Array.from({ length: count }, (_, index) => index + from);
const linesOf = (results: readonly { line: number }[]) => results.map(({ line }) => line);

async function findsOutcomes(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [batch, other] = [newBatch(), newBatch()];
  const failed = { failed: true, status: null, error: { code: 'X', message: 'm' } };
  const results = numbers(30).map((line) => resultOf(batch, line, line % 2 ? { model: 'small-chat' } : failed));
  await batches.insertResults([...results, resultOf(other, 5)]);
  const outcomes = results.map(({ batch: _, requestId: __, estimated: ___, body: ____, ...outcome }) => outcome);
  t.deepEqual(await batches.listOutcomes(batch, { after: 0, limit: 100 }), outcomes);
  t.deepEqual(await batches.listOutcomes(batch, { after: 10, limit: 3 }), outcomes.slice(10, 13));
  const found = await batches.findOutcomes(batch, [30, 2, 99]);
  t.deepEqual(new Set(found), new Set([outcomes[1], outcomes[29]]));
  t.deepEqual(await batches.findOutcomes(batch, []), []);
}

async function keepsFirst(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = newBatch();
  const first = numbers(3).map((line) => resultOf(batch, line));
  t.deepEqual(await batches.insertResults(first), first);
  t.deepEqual(await batches.insertResults(first), first, 'repeated');
  const other = numbers(4).map((line) => resultOf(batch, line, { customId: 'another', promptTokens: 99 }));
  t.deepEqual(await batches.insertResults(other.toReversed()), [...other.slice(3), ...first.toReversed()]);
  t.deepEqual(await batches.listResults(batch, { after: 0, limit: 10 }), [...first, ...other.slice(3)]);

  const twice = [resultOf(batch, 9), resultOf(batch, 9, { customId: 'another' })];
  const [one, two] = await batches.insertResults(twice);
  t.deepEqual(one, two);
  t.deepEqual(await batches.listResults(batch, { after: 8, limit: 10 }), [one]);
  t.deepEqual(await batches.insertResults([]), []);
}

async function keepsShapes(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = newBatch();
  const error = { code: 'batch_expired', message: 'It was not run in time.' };
  const shapes = [
    resultOf(batch, 1, { failed: true, status: null, body: null, error, promptTokens: 0, completionTokens: 0 }),
    resultOf(batch, 2, { body: 'é"\\\u0000\n名前 🗝️', customId: '$set.a "b"', estimated: true }),
    resultOf(batch, 3, { body: '', status: 503, failed: true }),
    resultOf(batch, 4, { body: 'x'.repeat(lineBytesMax) }),
  ];
  t.deepEqual(await batches.insertResults(shapes), shapes);
  t.deepEqual(await batches.insertResults(shapes), shapes);
  t.deepEqual(await batches.listResults(batch, { after: 0, limit: 10 }), shapes);
  for (const shape of shapes) {
    await batches.insertBatch(batchOf({ id: batch }));
    t.deepEqual((await batches.findLine(batch, shape.line))?.result, shape);
  }
}

async function listsResults(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [batch, other] = [newBatch(), newBatch()];
  const lines = numbers(130).map((line) => line * 9); // of one digit up to four
  await batches.insertResults([...lines].reverse().map((line) => resultOf(batch, line)));
  await batches.insertResults(numbers(20).map((line) => resultOf(other, line)));
  t.deepEqual(linesOf(await batches.listResults(batch, { after: 0, limit: 1_000 })), lines);
  const paged: number[] = [];
  for (let page: BatchResult[] = []; paged.length === 0 || page.length > 0; paged.push(...linesOf(page))) {
    page = await batches.listResults(batch, { after: paged.at(-1) ?? 0, limit: 7 });
    t.true(page.length <= 7);
  }
  t.deepEqual(paged, lines);
  t.deepEqual(linesOf(await batches.listResults(batch, { after: 10, limit: 2 })), [18, 27]);
  t.deepEqual(await batches.listResults(newBatch(), { after: 0, limit: 10 }), []);
}

async function listsLargeResults(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = newBatch();
  const body = 'x'.repeat(lineBytesMax - 1);
  for (const line of numbers(5)) await batches.insertResults([resultOf(batch, line, { body })]);
  const sizes: number[] = [];
  const lines: number[] = [];
  for (let page: BatchResult[] = []; lines.length === 0 || page.length > 0; lines.push(...linesOf(page))) {
    page = await batches.listResults(batch, { after: lines.at(-1) ?? 0, limit: 1_000 });
    sizes.push(page.length);
  }
  t.deepEqual(lines, numbers(5));
  t.deepEqual(sizes, [3, 2, 0]);
}

async function countsLines(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = newBatch();
  t.deepEqual(await batches.countResults(batch), { completed: 0, failed: 0 });
  t.deepEqual(await batches.listEndedLines(batch, 1), []);
  const lines = numbers(6_000).filter((line) => line % 6 !== 0);
  const results = lines.map((line) => resultOf(batch, line, { failed: line % 6 === 1 }));
  await batches.insertResults(results);
  await batches.insertResults([resultOf(newBatch(), 1)]);
  t.deepEqual(await batches.countResults(batch), { completed: 4_000, failed: 1_000 });
  t.deepEqual(await batches.listEndedLines(batch, 1), lines);
  t.deepEqual(
    await batches.listEndedLines(batch, 5_989),
    [5_989, 5_990, 5_991, 5_992, 5_993, 5_995, 5_996, 5_997, 5_998, 5_999],
  );
  t.deepEqual(await batches.listEndedLines(batch, 6_000), []);
}

async function findsLine(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = batchOf({ state: 'cancelling' });
  t.is(await batches.findLine(batch.id, 1), undefined);
  await batches.insertBatch(batch);
  const stored = { state: 'cancelling', open: true } as const;
  const first = { ...stored, number: 1, retry: undefined, result: undefined };
  t.deepEqual(await batches.findLine(batch.id, 1), first);
  await batches.recordRetry(retryOf(batch.id, 1));
  const latest = retryOf(batch.id, 1, { number: 3, failures: 2, losses: 1 });
  await batches.recordRetry(latest);
  await batches.insertResults([resultOf(batch.id, 2)]);
  t.deepEqual(await batches.findLine(batch.id, 1), { ...stored, number: 3, retry: latest, result: undefined });
  t.deepEqual(await batches.findLine(batch.id, 2), { ...first, result: resultOf(batch.id, 2) });

  const closed = batchOf({ state: 'completed', open: false });
  await batches.insertBatch(closed);
  t.deepEqual(await batches.findLine(closed.id, 1), { ...first, state: 'completed', open: false });
}

async function guardsRetries(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = newBatch();
  const next = (number: number, failures = 1) => retryOf(batch, 10, { number, failures });
  for (const early of [1, 3, 4]) t.false(await batches.recordRetry(next(early)), 'the number does not follow');
  t.deepEqual(await batches.listRetries(batch), []);
  t.true(await batches.recordRetry(next(2)));
  t.true(await batches.recordRetry(next(2)), 'repeated');
  t.false(await batches.recordRetry(next(2, 7)), 'another retry with the same number');
  t.false(await batches.recordRetry(retryOf(batch, 10, { notBefore: new Date(1) })));
  t.false(await batches.recordRetry(next(4)));
  t.deepEqual(await batches.listRetries(batch), [next(2)]);
  t.true(await batches.recordRetry(next(3, 2)));
  t.false(await batches.recordRetry(next(2)), 'a past number');

  const others = [2, 100, 9].map((line) => retryOf(batch, line));
  for (const retry of others) t.true(await batches.recordRetry(retry));
  await batches.recordRetry(retryOf(newBatch(), 1));
  t.deepEqual(linesOf(await batches.listRetries(batch)), [2, 9, 10, 100]);
  t.deepEqual((await batches.listRetries(batch))[2], next(3, 2));
}

async function removesResults(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [batch, other] = [newBatch(), newBatch()];
  for (const each of [batch, other]) {
    await batches.insertResults(numbers(700).map((line) => resultOf(each, line)));
    for (const line of numbers(20)) await batches.recordRetry(retryOf(each, line));
  }
  t.false(await batches.removeResults(batch, 250));
  const left = (await batches.listEndedLines(batch, 1)).length;
  t.true(left < 700 && left >= 400, `${left} are left`);
  let calls = 0;
  for (; !(await batches.removeResults(batch, 250)); calls += 1) t.true(calls < 20);
  t.deepEqual(await batches.countResults(batch), { completed: 0, failed: 0 });
  t.deepEqual(await batches.listRetries(batch), []);
  t.true(await batches.removeResults(batch, 250), 'there are none');
  t.deepEqual(await batches.listEndedLines(other, 1), numbers(700));
  t.is((await batches.listRetries(other)).length, 20);
}

async function agreesOnResults(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const batch = newBatch();
  const lines = numbers(150);
  const returned = await Promise.all(
    numbers(12).map((caller) => {
      const { batches } = caller % 2 === 0 ? one : other;
      const order = caller % 3 === 0 ? lines.toReversed() : lines;
      return batches.insertResults(order.map((line) => resultOf(batch, line, { customId: `of ${caller}` })));
    }),
  );
  const stored = await storedResults(one.batches, batch);
  t.is(stored.size, lines.length);
  for (const result of returned.flat()) t.deepEqual(result, stored.get(result.line));
  t.is(returned.flat().length, 12 * lines.length);
}

async function agreesOverProcesses(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const batch = newBatch();
  const processes = await Promise.all([
    startInserter(home.url, batch, ['first', 'asc']),
    startInserter(home.url, batch, ['second', 'desc']),
  ]);
  const outputs = await Promise.all(processes.map(finishInserter));
  const stored = await storedResults(store.batches, batch);
  t.is(stored.size, 600);
  const inserters = [...stored.values()].map(({ customId }) => customId);
  for (const returned of outputs) t.deepEqual(returned, inserters);
  t.deepEqual(new Set(inserters), new Set(['first', 'second']), 'each was the first for some');
}

async function startInserter(url: string, batch: string, args: readonly string[]): Promise<Inserter> {
  const child = spawn(process.execPath, [inserter, url, batch, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return child;
}

/** For each line, who inserted the result that this process was given. */
async function finishInserter(child: Inserter): Promise<string[]> {
  const output = text(child.stdout);
  child.stdin.write('go\n');
  return z.array(z.string()).parse(JSON.parse(await output));
}

async function storedResults(batches: LineRecords, batch: string): Promise<Map<number, BatchResult>> {
  const results = await batches.listResults(batch, { after: 0, limit: 1_000 });
  return new Map(results.map((result) => [result.line, result]));
}

async function notesRetryOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const batch = newBatch();
  for (const number of [2, 3, 4]) {
    const retries = numbers(50).map((failures) => retryOf(batch, 1, { number, failures }));
    const noted = await Promise.all(
      retries.map((retry, index) => (index % 2 === 0 ? one : other).batches.recordRetry(retry)),
    );
    const winners = retries.filter((_, index) => noted[index]);
    t.is(winners.length, 1);
    t.deepEqual(await one.batches.listRetries(batch), winners);
  }
  const again = retryOf(batch, 1, { number: 5 });
  const same = await Promise.all(numbers(20).map(() => other.batches.recordRetry(again)));
  t.deepEqual(new Set(same), new Set([true]), 'the same retry from many callers is stored, and each call succeeds');
}
