import type { ExecutionContext } from 'ava';
import { createInsertWithRoom } from '../../../ingress/files/account-room.ts';
import {
  bytesBesideFile,
  enterRoom,
  leaveRoom,
  newRoomEntry,
  type RoomEntry,
} from '../../../shared/batches/batch-room.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import { readAccountBytes } from '../../../shared/store/records/batch-store.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf, fileOf } from '../../shared/store/batch-records.ts';
import { type Contract, provesOnStore } from '../../shared/store/store-contract.ts';
import { dying, forEachDeath } from '../../support/dying.ts';
import { serveFileRoutes } from '../../support/file-routes.ts';

const account = 'user:ann';
const caller: Caller = { account, plan: 'free', suspended: false, version: 1, overageEnabled: false };
const noLimits = { batchesMax: 1_000, filesMax: 1_000_000, bytesMax: 1e12, tokensMax: undefined };
const freePlan = (batchTokensWaiting: number) => ({ free: { batchTokensWaiting, modelTiers: ['guest'] } });

/** What the files and batches of an account may hold, at the routes, on any store. */
export function testRoomOfAccounts(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('of batches that are created at once as many have room as the plan has tokens', createsByTokens);
  prove('an account has a hundred unfinished batches, also if more are created at once', createsByNumber);
  prove('a batch needs bytes for its lines and files for its results', createsByBytes);
  prove('two requests with one idempotency key create one batch, with one entry', createsOnce);
  prove('wherever a process dies that creates a batch, its entry has a batch, or leaves after a minute', survivesDeath);
  prove('a batch that comes too late for its entry is not created', refusesLate);
  prove('uploads at once have together no more bytes than there is room for', uploadsWithinBytes);
  prove('an upload is refused while results of batches take the room', uploadsBesideResults);
}

async function serve(t: ExecutionContext, store: Pick<Store, 'batches' | 'files'>, options: object = {}) {
  const routes = await serveFileRoutes({ store, ...options });
  t.teardown(() => routes[Symbol.dispose]());
  const create = (file: string, headers: Record<string, string> = {}) =>
    routes.ask(
      caller,
      'POST',
      '/v1/batches',
      { input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' },
      headers,
    );
  return { ...routes, create, upload: (text: string) => routes.ask(caller, 'POST', '/v1/files', text) };
}

async function insertFile({ batches }: Store, change: Parameters<typeof fileOf>[0] = {}): Promise<string> {
  const file = fileOf({ account, tokens: 10, lines: 2, bytes: 100, ...change });
  await batches.insertFile(file);
  return file.id;
}

async function enter({ batches }: Store, change: Partial<RoomEntry> = {}): Promise<string> {
  const { id } = batchOf();
  const entry = { ...newRoomEntry({ lines: 0, tokens: 0, since: new Date() }), ...change };
  await batches.changeRoom(account, enterRoom(id, entry, noLimits));
  return id;
}

const statuses = (answers: readonly { status: number }[]) => answers.map(({ status }) => status).toSorted();
const times = <Item>(count: number, item: () => Item): Item[] => Array.from({ length: count }, item);

async function createsByTokens(t: ExecutionContext, store: Store): Promise<void> {
  const file = await insertFile(store);
  const { create, ask } = await serve(t, store, { plans: freePlan(75) });
  const answers = await Promise.all(times(20, () => create(file)));
  t.deepEqual(statuses(answers), [...Array(7).fill(200), ...Array(13).fill(429)]);
  const refused = answers.find(({ status }) => status === 429)?.json().error;
  t.like(refused, { type: 'batch_limit', retry_after_ms: 60_000 });
  t.regex(refused.message, /about 10 tokens, and 70 are already waiting: the plan has room for 75/);
  const { data } = (await ask(caller, 'GET', '/v1/batches?limit=100')).json();
  const { entries } = await store.batches.findRoom(account);
  t.deepEqual(Object.keys(entries).toSorted(), data.map(({ id }: { id: string }) => id).toSorted());
}

async function createsByNumber(t: ExecutionContext, store: Store): Promise<void> {
  const file = await insertFile(store);
  for (let count = 0; count < 96; count++) await enter(store);
  const { create } = await serve(t, store);
  const answers = await Promise.all(times(8, () => create(file)));
  t.deepEqual(statuses(answers), [...Array(4).fill(200), ...Array(4).fill(429)]);
  t.regex(answers.find(({ status }) => status === 429)?.text ?? '', /has 100 unfinished batches, and can have 100/);
}

async function createsByBytes(t: ExecutionContext, store: Store): Promise<void> {
  const file = await insertFile(store, { lines: 10 });
  const needed = newRoomEntry({ lines: 10, tokens: 10, since: new Date() }).bytes;
  const held = 100 + bytesBesideFile;
  const short = await serve(t, store, { batch: { accountBytesMax: held + needed - 1 } });
  const refused = await short.create(file);
  t.is(refused.status, 413);
  t.like(refused.json(), { code: 'PAYLOAD_TOO_LARGE' });
  t.deepEqual((await store.batches.findRoom(account)).entries, {});
  const enough = await serve(t, store, { batch: { accountBytesMax: held + needed } });
  t.is((await enough.create(file)).status, 200);
  t.is((await enough.create(file)).status, 413);

  const few = await serve(t, store, { batch: { accountFilesMax: 4 } });
  t.like((await few.create(file)).json(), { code: 'CONFLICT' });
  const more = await serve(t, store, { batch: { accountFilesMax: 5 } });
  t.is((await more.create(file)).status, 200);
  t.is((await more.upload('{}')).status, 409, 'the results of batches need files');
}

async function createsOnce(t: ExecutionContext, store: Store): Promise<void> {
  const file = await insertFile(store);
  const { create } = await serve(t, store);
  const answers = await Promise.all(times(6, () => create(file, { 'idempotency-key': 'nightly' })));
  const ids = new Set(answers.map((answer) => answer.json().id));
  t.is(ids.size, 1);
  t.deepEqual(Object.keys((await store.batches.findRoom(account)).entries), [...ids]);
}

async function survivesDeath(t: ExecutionContext, store: Store): Promise<void> {
  const file = await insertFile(store);
  const since = Date.now();
  for (const headers of [{}, { 'idempotency-key': 'nightly' }]) {
    const calls = await forEachDeath(async (death) => {
      const before = await store.batches.listBatches(account, { limit: 1_000 });
      const { parts, hasDied } = dying({ batches: store.batches, files: store.files }, death);
      const first = await serve(t, parts, { now: () => since });
      await first.create(file, headers);
      if (!hasDied()) return 'lived';
      const { entries } = await store.batches.findRoom(account);
      const batches = await store.batches.listBatches(account, { limit: 1_000 });
      for (const { id } of batches) t.true(entries[id] !== undefined, `${JSON.stringify(death)}: each batch counts`);
      t.true(batches.length - before.length <= 1);

      // Only what is counted for this one account is in the way.
      const tokensMax = 10 * batches.length + 10;
      const soon = await serve(t, store, { plans: freePlan(tokensMax), now: () => since + 60_000 });
      const late = await serve(t, store, { plans: freePlan(tokensMax), now: () => since + 60_001 });
      const hasOrphan = Object.keys(entries).length > batches.length;
      t.is((await soon.create(file)).status, hasOrphan ? 429 : 200, JSON.stringify(death));
      if (hasOrphan) t.is((await late.create(file)).status, 200, JSON.stringify(death));
      const left = Object.keys((await store.batches.findRoom(account)).entries);
      t.is(left.length, (await store.batches.listBatches(account, { limit: 1_000 })).length);
      return 'died';
    });
    t.true(calls >= 5, String(calls));
  }
}

async function refusesLate(t: ExecutionContext, store: Store): Promise<void> {
  let now = 0;
  const slow = { ...store.batches, changeRoom: late } as Store['batches'];
  async function late(...given: Parameters<Store['batches']['changeRoom']>) {
    const result = await store.batches.changeRoom(...given);
    now += 20_001;
    return result;
  }
  const insert = createInsertWithRoom({ store: slow, now: () => now });
  const batch = batchOf({ account });
  const limits = { accountBytesMax: 1e9, accountFilesMax: 100, tokensMax: undefined };
  await t.throwsAsync(insert({ batch, lines: 1, limits, claim: undefined }), { code: 'SERVICE_UNAVAILABLE' });
  t.is(await store.batches.findBatch(batch.id), undefined);
}

async function uploadsWithinBytes(t: ExecutionContext, store: Store): Promise<void> {
  const accountBytesMax = 200_000;
  const { upload } = await serve(t, store, { batch: { accountBytesMax } });
  const text = 'x'.repeat(60_000);
  const answers = [
    ...(await Promise.all(times(4, () => upload(text)))),
    ...(await Promise.all(times(4, () => upload(text)))),
  ];
  const kept = answers.filter(({ status }) => status === 200);
  t.true(kept.length >= 1 && kept.length <= 3, JSON.stringify(statuses(answers)));
  t.true(answers.every(({ status }) => status === 200 || status === 413));
  const { bytes, files } = await readAccountBytes(store.batches, account);
  t.deepEqual([files, bytes], [kept.length, kept.length * (60_000 + bytesBesideFile)]);
}

async function uploadsBesideResults(t: ExecutionContext, store: Store): Promise<void> {
  const accountBytesMax = 100_000;
  const { upload } = await serve(t, store, { batch: { accountBytesMax } });
  const batch = await enter(store);
  t.is(await store.batches.takeBytes(account, { batch, bytes: 80_000, bytesMax: accountBytesMax }), 'taken');
  const refused = await upload('x'.repeat(10_000));
  t.is(refused.status, 413);
  t.regex(refused.json().error, /with the results of its batches, may have 100000 bytes/);
  await store.batches.changeRoom(account, leaveRoom([batch]));
  t.is((await upload('x'.repeat(10_000))).status, 200);
}
