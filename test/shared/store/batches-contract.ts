import type { ExecutionContext } from 'ava';
import { type Batch, batchStates, type StoredFile } from '../../../shared/batches/batch.ts';
import { isOver, nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Page } from '../../../shared/store/records/batch-records.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf, fileOf } from './batch-records.ts';
import { type Contract, provesOnStore, type StoreHome } from './store-contract.ts';

/** The guarantees of every store for its records of files and batches. */
export function testBatchesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('the record of a file is stored once and found unchanged until it is removed', keepsFile);
  prove('a file is changed only if it is in the expected state', guardsFile);
  prove('files are listed by owner, purpose and keys, in both orders, page by page, and only ready ones', listsFiles);
  prove('the byte count of an account includes its ready files, and those that are being written', countsFiles);
  prove(
    'the files to remove are those that have expired, are marked for deletion, or were never finished',
    listsFilesToRemove,
  );
  prove('a batch is found as it was inserted, and a second insert does not change it', keepsBatch);
  prove('of batches with the same claim only the first is inserted, and it keeps its claim', claimsBatch);
  prove('batches are listed by owner and keys, in both orders, page by page', listsBatches);
  prove('a change is written with the next version, and nothing is written without a change', changesBatch);
  prove('a batch is removed once it is not open', removesBatch);
  prove('only open batches of the given accounts are listed, in order of their ids', listsOpen);
  prove('an account is listed once while it has open batches', listsOpenAccounts);
  prove('a file is the input of an unfinished batch in every state that is not final', knowsInputs);
  prove('batches are described by state, with the oldest of those that wait', describes);
}

/** The same under concurrency, for serial tests, because they make many calls at once. */
export function testBatchRacesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('of 200 concurrent cancellations one is made, and all others see it', cancelsOnce);
  prove('of 60 batches that are inserted at once with the same claim there is one', claimsOnce);
  prove('each of 60 concurrent changes is made on the result of the one before it', makesEachChange);
}

async function keepsFile(t: ExecutionContext, { batches }: Store): Promise<void> {
  const file = fileOf({ filename: '名前 "$set".jsonl', state: 'writing', bytes: 0 });
  t.is(await batches.findFile(file.id), undefined);
  t.true(await batches.insertFile({ ...file, secret: 'not a field of a file' } as StoredFile));
  t.false(await batches.insertFile({ ...file, account: 'user:bob' }));
  t.deepEqual(await batches.findFile(file.id), file);
  await batches.removeFile(file.id);
  await batches.removeFile(file.id);
  t.is(await batches.findFile(file.id), undefined);
}

async function removesBatch(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [batch, other] = [batchOf(), batchOf({ open: false, state: 'completed' })];
  for (const each of [batch, other]) await batches.insertBatch(each);
  await batches.removeBatch(batch.id);
  t.deepEqual(await batches.findBatch(batch.id), batch);
  await batches.changeBatch(batch.id, () => ({
    result: undefined,
    next: { ...batch, open: false, state: 'completed' },
  }));
  for (let times = 0; times < 2; times++) await batches.removeBatch(batch.id);
  t.is(await batches.findBatch(batch.id), undefined);
  t.deepEqual(await batches.listEndedBatches(10), [], 'its event does not wait');
  t.deepEqual(await batches.listBatches(batch.account, { limit: 10 }), [other]);
}

async function guardsFile(t: ExecutionContext, { batches }: Store): Promise<void> {
  const file = fileOf({ state: 'writing' });
  t.false(await batches.changeFile(file.id, 'writing', { state: 'ready' }), 'there is no such file');
  await batches.insertFile(file);
  t.false(await batches.changeFile(file.id, 'ready', { state: 'deleting' }));
  t.deepEqual(await batches.findFile(file.id), file);
  const expiresAt = new Date(7);
  t.true(await batches.changeFile(file.id, 'writing', { state: 'ready', bytes: 7, lines: 2, tokens: 3, expiresAt }));
  t.deepEqual(await batches.findFile(file.id), { ...file, state: 'ready', bytes: 7, lines: 2, tokens: 3, expiresAt });
  t.true(await batches.changeFile(file.id, 'ready', {}), 'an empty change succeeds in the expected state');
  const deletions = Array.from({ length: 20 }, () => batches.changeFile(file.id, 'ready', { state: 'deleting' }));
  t.is((await Promise.all(deletions)).filter((isMine) => isMine).length, 1);
}

async function listsFiles(t: ExecutionContext, { batches }: Store): Promise<void> {
  const all = Array.from({ length: 250 }, (_, index) =>
    fileOf({
      account: index % 5 === 0 ? 'user:bob' : 'user:ann',
      purpose: index % 3 === 0 ? 'batch_output' : 'batch',
      state: index % 7 === 0 ? 'writing' : index % 7 === 1 ? 'deleting' : 'ready',
      ...(index % 11 !== 0 && { keyId: `key_${index % 11}` }),
    }),
  );
  await inGroups(all, (file) => batches.insertFile(file));
  const ann = all.filter(({ account, state }) => account === 'user:ann' && state === 'ready');
  const [outputs, inputs] = [
    ann.filter(({ purpose }) => purpose === 'batch_output'),
    ann.filter(({ purpose }) => purpose === 'batch'),
  ];
  const list = (page: Page) => batches.listFiles('user:ann', page);
  await goesThrough(t, ann, list);
  await goesThrough(t, outputs, (page) => batches.listFiles('user:ann', { ...page, purpose: 'batch_output' }));
  await goesThrough(t, inputs, (page) => batches.listFiles('user:ann', { ...page, purpose: 'batch' }));
  t.deepEqual(idsOf(await list({ limit: 1_000 })), idsOf(ann).sort().reverse(), 'the newest first');
  const keyIds = ['key_3', 'key_5', 'key_missing'];
  const ofKeys = ann.filter(({ keyId = '' }) => keyIds.includes(keyId));
  await goesThrough(t, ofKeys, (page) => batches.listFiles('user:ann', { ...page, keyIds }));
  const outputsOfKeys = ofKeys.filter(({ purpose }) => purpose === 'batch_output');
  await goesThrough(t, outputsOfKeys, (page) =>
    batches.listFiles('user:ann', { ...page, keyIds, purpose: 'batch_output' }),
  );
  t.deepEqual(await list({ limit: 10, keyIds: [] }), []);
  t.deepEqual(await batches.listFiles('user:missing', { limit: 10 }), []);
}

async function countsFiles(t: ExecutionContext, { batches }: Store): Promise<void> {
  const countOf = (account: string) => batches.countFiles(account);
  t.deepEqual(await countOf('user:ann'), { files: 0, bytes: 0 });
  const large = 2_000_000_000;
  const own = [
    fileOf({ bytes: large }),
    fileOf({ bytes: large, purpose: 'batch_output' }),
    fileOf({ bytes: 7, expiresAt: new Date(0) }),
  ];
  const others = [
    fileOf({ bytes: 1, state: 'writing' }),
    fileOf({ bytes: 10, state: 'deleting' }),
    fileOf({ bytes: 100, account: 'user:bob' }),
  ];
  for (const file of [...own, ...others]) await batches.insertFile(file);
  t.deepEqual(await countOf('user:ann'), { files: 4, bytes: 2 * large + 8 });
  t.deepEqual(await countOf('user:bob'), { files: 1, bytes: 100 });
  const [writing] = others;
  if (writing === undefined) throw new Error('there must be others');
  await batches.changeFile(writing.id, 'writing', { state: 'ready', bytes: 5 });
  t.deepEqual(await countOf('user:ann'), { files: 4, bytes: 2 * large + 12 });
  for (const { id } of own.slice(0, 2)) await batches.changeFile(id, 'ready', { state: 'deleting' });
  t.deepEqual(await countOf('user:ann'), { files: 2, bytes: 12 });
}

async function listsFilesToRemove(t: ExecutionContext, { batches }: Store): Promise<void> {
  const at = new Date('2026-12-10T00:00:00.000Z');
  const before = (date: Date) => new Date(date.getTime() - 1);
  const writingSince = new Date('2026-12-09T00:00:00.000Z');
  const kept = [
    fileOf({ expiresAt: new Date(at.getTime() + 1) }),
    fileOf({ state: 'writing', createdAt: writingSince, expiresAt: before(at) }),
  ];
  const gone = [
    fileOf({ state: 'deleting', expiresAt: new Date(at.getTime() + 3) }),
    fileOf({ expiresAt: at }),
    fileOf({ state: 'writing', createdAt: before(writingSince), expiresAt: new Date(at.getTime() + 2) }),
    fileOf({ expiresAt: before(at), account: 'user:bob' }),
    fileOf({ state: 'deleting', expiresAt: new Date(7) }),
  ];
  for (const file of [...kept, ...gone]) await batches.insertFile(file);
  const found = await batches.listFilesToRemove(at, writingSince, 100);
  t.deepEqual(idsOf(found).sort(), idsOf(gone).sort());
  const ages = found.map(({ expiresAt }) => Number(expiresAt));
  t.deepEqual(
    ages,
    ages.toSorted((one, other) => one - other),
    'in order of expiry',
  );
  t.deepEqual(idsOf(await batches.listFilesToRemove(at, writingSince, 3)), idsOf(found.slice(0, 3)));
}

async function keepsBatch(t: ExecutionContext, { batches }: Store): Promise<void> {
  const at = new Date('2026-12-05T12:00:00.000Z');
  const times = { inProgressAt: at, finalizingAt: at, completedAt: at, failedAt: at, expiredAt: at };
  const whole = batchOf({
    ...times,
    cancellingAt: at,
    cancelledAt: at,
    metadata: { 'a.b': '1', $set: '2', '': '3', constructor: '4', 名前: '\u0000' },
    errors: [{ code: 'invalid_json', line: null, param: 'body.$x', message: 'a "fault"' }],
    ending: 'cancelled',
    outputFile: 'file-out',
    errorFile: 'file-err',
    open: false,
    keyId: '',
  });
  const plain = batchOf({ metadata: {} });
  t.is(await batches.findBatch(whole.id), undefined);
  await batches.insertBatch({ ...whole, secret: 'not a field of a batch' } as Batch);
  await batches.insertBatch(plain);
  t.deepEqual(await batches.findBatch(whole.id), whole);
  t.deepEqual(await batches.findBatch(plain.id), plain);
  await batches.insertBatch({ ...plain, account: 'user:bob' });
  t.deepEqual(await batches.findBatch(plain.id), plain);
}

async function claimsBatch(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [first, second, third] = [batchOf({ state: 'in_progress' }), batchOf(), batchOf()];
  t.is(await batches.findClaimedBatch('one'), undefined);
  await batches.insertBatch(first, 'one');
  await batches.insertBatch(second, 'one');
  await batches.insertBatch(first, 'one'); // repeated
  t.is(await batches.findBatch(second.id), undefined);
  t.deepEqual(await batches.findClaimedBatch('one'), first);
  await batches.insertBatch(second);
  await batches.insertBatch(third, 'three');
  await close(batches, first);
  t.like(await batches.findClaimedBatch('one'), { id: first.id, open: false, version: 2 });
  t.deepEqual(await batches.findClaimedBatch('three'), third);
  t.is(await batches.findClaimedBatch(second.id), undefined);
}

async function claimsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const all = Array.from({ length: 60 }, () => batchOf({ account: 'user:claimer' }));
  await Promise.all(all.map((batch, index) => (index % 2 === 0 ? one : other).batches.insertBatch(batch, 'claimed')));
  const stored = await one.batches.listBatches('user:claimer', { limit: 100 });
  t.is(stored.length, 1);
  t.deepEqual(await other.batches.findClaimedBatch('claimed'), stored[0]);
}

async function listsBatches(t: ExecutionContext, { batches }: Store): Promise<void> {
  const all = Array.from({ length: 250 }, (_, index) =>
    batchOf({
      account: index % 4 === 0 ? 'user:bob' : 'user:ann',
      open: index % 2 === 0,
      keyId: index % 11 === 0 ? '' : `key_${index % 11}`,
    }),
  );
  await inGroups(all, (batch) => batches.insertBatch(batch));
  const ann = all.filter(({ account }) => account === 'user:ann');
  await goesThrough(t, ann, (page) => batches.listBatches('user:ann', page));
  t.deepEqual(idsOf(await batches.listBatches('user:ann', { limit: 2 })), idsOf(ann).sort().slice(-2).reverse());
  const keyIds = ['key_3', 'key_5', 'key_missing'];
  const ofKeys = ann.filter(({ keyId }) => keyIds.includes(keyId));
  await goesThrough(t, ofKeys, (page) => batches.listBatches('user:ann', { ...page, keyIds }));
  t.deepEqual(await batches.listBatches('user:ann', { limit: 10, keyIds: [] }), []);
}

async function changesBatch(t: ExecutionContext, { batches }: Store): Promise<void> {
  const batch = batchOf({ state: 'validating' });
  await batches.insertBatch(batch);
  const at = new Date(9);
  const started = await batches.changeBatch(batch.id, (found) => {
    t.deepEqual(found, batch);
    const next = nextBatch(batch, { type: 'validated', total: 3 }, at);
    return { result: 'started', ...(next && { next }) };
  });
  t.is(started, 'started');
  const running = {
    ...batch,
    state: 'in_progress',
    inProgressAt: at,
    counts: { ...batch.counts, total: 3 },
    version: 2,
  };
  t.deepEqual(await batches.findBatch(batch.id), running as Batch);

  t.is(await batches.changeBatch(batch.id, (found) => ({ result: found?.version })), 2);
  t.deepEqual(await batches.findBatch(batch.id), running as Batch);
  const refusal = new Error('an error of the caller is passed on');
  const refusing = batches.changeBatch(batch.id, () => {
    throw refusal;
  });
  t.is(await t.throwsAsync(refusing), refusal);

  const unknown = batchOf();
  t.is(await batches.changeBatch(unknown.id, (found) => ({ result: found, next: unknown })), undefined);
  t.is(await batches.findBatch(unknown.id), undefined);
}

async function listsOpen(t: ExecutionContext, { batches }: Store): Promise<void> {
  const all = Array.from({ length: 900 }, (_, index) =>
    batchOf({ open: index % 9 !== 0, account: `user:"${index % 6}"` }),
  );
  await inGroups(all, (batch) => batches.insertBatch(batch));
  const wanted = ['user:"0"', 'user:"1"', 'user:"2"', 'user:missing'];
  const open = all.filter((batch) => batch.open && wanted.includes(batch.account));
  t.true(open.length > 300, 'more than a page');
  t.deepEqual(await batches.listOpenBatches(wanted), open.toSorted(byId));
  const [first] = open;
  if (first === undefined) throw new Error('some must be open');
  await close(batches, first);
  t.deepEqual(idsOf(await batches.listOpenBatches(wanted)), idsOf(open.slice(1)).sort());
  t.like(await batches.findBatch(first.id), { open: false, version: 2 });
  t.deepEqual(await batches.listOpenBatches([]), []);
}

async function listsOpenAccounts(t: ExecutionContext, { batches }: Store): Promise<void> {
  t.deepEqual(await batches.listOpenAccounts(), []);
  const accounts = Array.from({ length: 300 }, (_, index) => `user:${index}`).sort();
  const twoOfEach = accounts.flatMap((account) => [batchOf({ account }), batchOf({ account })]);
  const closed = batchOf({ account: 'user:closed', open: false });
  await inGroups([...twoOfEach, closed], (batch) => batches.insertBatch(batch));
  const [first, second] = twoOfEach.filter(({ account }) => account === 'user:0');
  if (first === undefined || second === undefined) throw new Error('there must be two of each');
  await close(batches, first);
  t.deepEqual((await batches.listOpenAccounts()).sort(), accounts);
  await close(batches, second);
  t.deepEqual((await batches.listOpenAccounts()).sort(), accounts.slice(1));
}

async function close(batches: Store['batches'], { id }: Batch): Promise<void> {
  await batches.changeBatch(id, (batch) => ({ result: batch, ...(batch && { next: { ...batch, open: false } }) }));
}

async function knowsInputs(t: ExecutionContext, { batches }: Store): Promise<void> {
  const all = batchStates.map((state) => batchOf({ state }));
  for (const batch of all) await batches.insertBatch(batch);
  for (const batch of all) t.is(await batches.isInputOfUnfinished(batch.inputFile), !isOver(batch), batch.state);
  t.false(await batches.isInputOfUnfinished('file-missing'));
}

async function describes(t: ExecutionContext, { batches }: Store): Promise<void> {
  t.deepEqual(await batches.describeBatches(), { count: {}, oldestAt: undefined, tokens: 0 });
  const submitted = (day: number) => new Date(Date.UTC(2026, 11, day));
  for (const batch of [
    batchOf({ state: 'validating', createdAt: submitted(5), tokens: 1 }),
    batchOf({ state: 'in_progress', createdAt: submitted(4), tokens: 10 }),
    batchOf({ state: 'in_progress', createdAt: submitted(6), tokens: 100, account: 'user:bob' }),
    batchOf({ state: 'finalizing', createdAt: submitted(3), tokens: 1_000 }),
    batchOf({ state: 'completed', createdAt: submitted(2), tokens: 10_000 }),
    batchOf({ state: 'completed', createdAt: submitted(1), tokens: 10_000, open: false }),
  ]) {
    await batches.insertBatch(batch);
  }
  t.deepEqual(await batches.describeBatches(), {
    count: { validating: 1, in_progress: 2, finalizing: 1, completed: 1 },
    oldestAt: submitted(4),
    tokens: 111,
  });
}

async function cancelsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const batch = batchOf();
  await one.batches.insertBatch(batch);
  const cancellations = Array.from({ length: 200 }, (_, index) =>
    (index % 2 === 0 ? one : other).batches.changeBatch(batch.id, (found) => {
      const next = found && nextBatch(found, { type: 'cancel' }, new Date(index));
      return { result: { isMine: next !== undefined, found }, ...(next && { next }) };
    }),
  );
  const outcomes = await Promise.all(cancellations);
  const winners = outcomes.flatMap(({ isMine }, index) => (isMine ? [index] : []));
  t.is(winners.length, 1);
  const after = await one.batches.findBatch(batch.id);
  t.like(after, { state: 'cancelling', version: 2, cancellingAt: new Date(winners[0] ?? -1) });
  for (const { isMine, found } of outcomes) t.deepEqual(found, isMine ? batch : after);
}

async function makesEachChange(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const batch = batchOf();
  await one.batches.insertBatch(batch);
  const changes = Array.from({ length: 60 }, (_, index) =>
    (index % 2 === 0 ? one : other).batches.changeBatch(batch.id, (found = batch) => ({
      result: found.tokens,
      next: { ...found, tokens: found.tokens + 1 },
    })),
  );
  const decidedOn = await Promise.all(changes);
  t.deepEqual(
    decidedOn.sort((a, b) => a - b),
    Array.from({ length: 60 }, (_, index) => batch.tokens + index),
  );
  t.like(await other.batches.findBatch(batch.id), { tokens: batch.tokens + 60, version: 61 });
}

/** Lists in both orders: as one page, and as pages of 7 that each start after the one before. */
async function goesThrough<Item extends { id: string }>(
  t: ExecutionContext,
  expected: readonly Item[],
  list: (page: Page) => Promise<Item[]>,
): Promise<void> {
  for (const order of ['asc', 'desc'] as const) {
    const sorted = order === 'asc' ? expected.toSorted(byId) : expected.toSorted(byId).reverse();
    t.deepEqual(await list({ limit: 1_000, order }), sorted);
    const paged: Item[] = [];
    for (let page: Item[] = []; paged.length === 0 || page.length > 0; paged.push(...page)) {
      page = await list({ limit: 7, order, after: paged.at(-1)?.id });
      t.true(page.length === 7 || paged.length + page.length === expected.length);
    }
    t.deepEqual(paged, sorted);
  }
}

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1;
}

function idsOf(items: readonly { id: string }[]): string[] {
  return items.map(({ id }) => id);
}

/** At most as many at once as a store has connections: more would wait for each other until they time out. */
async function inGroups<Item>(items: readonly Item[], insert: (item: Item) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < items.length; from += 20) await Promise.all(items.slice(from, from + 20).map(insert));
}
