import type { ExecutionContext } from 'ava';
import test from 'ava';
import { createKey, mintGuestKey, mintKey } from '../../../ingress/authentication/change-keys.ts';
import { decideAction } from '../../../ingress/routes/operator-action.ts';
import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import { beginRemoval, createClearAccount, useAgain } from '../../../shared/account-changes/remove-account.ts';
import { enterRoom, newRoomEntry } from '../../../shared/batches/batch-room.ts';
import { nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf, fileOf } from '../store/batch-records.ts';
import { inChunks } from '../store/file-bytes.ts';
import { createSqliteHome } from '../store/sqlite-home.ts';
import { mint, newKey } from '../store/store-contract.ts';
import { usageRecord } from '../store/usage-records.ts';
import { deliveryOf, endpointOf, webhooksOf } from '../store/webhook-records.ts';

const [at, later] = [new Date('2026-12-05T12:00:00Z'), new Date('2026-12-06T12:00:00Z')];
const olga = { by: 'user:olga', at, origin: { address: '198.51.100.7', reason: 'left' } };
const by = { ...olga, plan: 'free' };
const ann = 'user:ann';
const [input, unused, output, others] = ['in', 'unused', 'out', 'bob'].map((filename) =>
  fileOf({ filename, account: filename === 'bob' ? 'user:bob' : ann }),
) as [ReturnType<typeof fileOf>, ReturnType<typeof fileOf>, ReturnType<typeof fileOf>, ReturnType<typeof fileOf>]; // four names
const running = batchOf({ account: ann, inputFile: input.id });
const over = batchOf({ account: ann, state: 'completed', open: false, outputFile: output.id });
const othersBatch = batchOf({ account: 'user:bob', inputFile: others.id });
const [endpoint, othersEndpoint] = [endpointOf(), endpointOf()];
const delivery = deliveryOf({ endpoint: endpoint.id });
const [defaultKey, furtherKey] = [newKey(), newKey()];

/** An account with all that one can have, and another one. */
async function fill(store: Store): Promise<void> {
  await mint(store, ann, { plan: 'pro', key: defaultKey });
  const fields = { name: 'a program' };
  await store.accounts.changeAccount(ann, createKey({ account: ann, plan: 'pro', key: furtherKey, fields }));
  const topUp = { id: 'paid', tokens: 5 };
  await store.accounts.changeAccount(
    ann,
    changeSettings({ settings: { topUp, overageEnabled: true }, by: 'user:olga', at }),
  );
  await store.accounts.keepName({ id: ann, name: 'Ann Example' });
  await store.usage.recordUsage([usageRecord({ account: ann, requestId: 'req_1' })]);
  await mint(store, 'user:bob');
  for (const file of [input, unused, output, others]) {
    await store.batches.insertFile(file);
    await store.files.write(file.id, inChunks(Buffer.from('bytes'), [5]));
  }
  for (const batch of [running, over, othersBatch]) await store.batches.insertBatch(batch);
  for (const [account, one] of [
    [ann, endpoint],
    ['user:bob', othersEndpoint],
  ] as const) {
    const webhooks = webhooksOf(account, [one]);
    await store.webhooks.changeWebhooks(account, () => ({ result: undefined, next: webhooks }));
  }
  await store.webhooks.insertDeliveries([delivery]);
}

/** What a worker does with a batch that is cancelled. */
async function endBatches(store: Store): Promise<void> {
  const none = { completed: 0, failed: 0, usage: { promptTokens: 0, cachedTokens: 0, completionTokens: 0 } };
  for (const event of [{ type: 'written', ...none, errorCounts: {} } as const, { type: 'cleared' } as const]) {
    await store.batches.changeBatch(running.id, (batch) => {
      const next = batch && nextBatch(batch, event, at);
      return { result: undefined, ...(next && { next }) };
    });
  }
}

/** The workers' sweep removes files that are marked. */
async function sweep({ batches, files }: Store): Promise<void> {
  for (const { id, state } of await batches.listFilesToRemove(new Date(0), new Date(0), 10)) {
    if (state !== 'deleting') continue;
    await files.remove(id);
    await batches.removeFile(id);
  }
}

const clearOf = (store: Store) =>
  createClearAccount({ store, changeAccount: (id, decide) => store.accounts.changeAccount(id, decide) });

async function remove(store: Store): Promise<boolean> {
  await store.accounts.changeAccount(ann, beginRemoval(by));
  return clearOf(store)(ann, at);
}

async function removalsOf(store: Store) {
  const records = await store.audit.listAudit({ account: ann, limit: 100 });
  return records.filter(({ change }) => change.accountRemoved);
}

async function assertGone(t: ExecutionContext, store: Store, title: string): Promise<void> {
  for (const hash of [defaultKey.hash, furtherKey.hash])
    t.is(await store.accounts.findKeyOwner([hash]), undefined, title);
  t.deepEqual(await store.batches.listBatches(ann, { limit: 10 }), [], title);
  t.deepEqual(await store.batches.listFiles(ann, { limit: 10 }), [], title);
  for (const { id } of [input, unused, output]) {
    t.is(await store.batches.findFile(id), undefined, title);
    t.is(await store.files.read(id, 0, 10), undefined, title);
  }
  t.deepEqual((await store.webhooks.findWebhooks(ann))?.endpoints, [], title);
  t.is(await store.webhooks.findDelivery(delivery.id), undefined, title);
  t.deepEqual(await store.accounts.findNames([ann]), new Map(), title);
  t.like(await store.accounts.findAccount(ann), {
    plan: 'free',
    removal: { isDone: true },
    topUp: undefined,
    keys: [],
  });
  t.deepEqual(
    await store.accounts.listAccounts({ limit: 10 }).then((all) => all.map(({ id }) => id)),
    ['user:bob'],
    title,
  );
  t.deepEqual(await store.accounts.listRemovals({ after: '', limit: 10 }), [], title);
}

async function assertKept(t: ExecutionContext, store: Store): Promise<void> {
  t.like(await removalsOf(store), [{ actor: 'user:olga', address: '198.51.100.7', reason: 'left' }]);
  t.is(
    (await store.audit.listAudit({ account: ann, kind: 'account', limit: 10 })).length,
    2,
    'the earlier record stays',
  );
  t.is((await store.usage.listUsageRecords(ann, { limit: 10 })).length, 1);
  t.not(defaultKeyOf(await store.accounts.findAccount('user:bob')), undefined);
  t.deepEqual(await store.batches.listBatches('user:bob', { limit: 10 }), [othersBatch]);
  t.deepEqual(await store.files.read(others.id, 0, 10), Buffer.from('bytes'));
  t.deepEqual((await store.webhooks.findWebhooks('user:bob'))?.endpoints, [othersEndpoint]);
}

test('an account loses its keys first, and all else once its batches have ended', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await fill(store);
  t.false(await remove(store));
  for (const hash of [defaultKey.hash, furtherKey.hash]) t.is(await store.accounts.findKeyOwner([hash]), undefined);
  t.like(await store.batches.findBatch(running.id), { state: 'cancelling' });
  t.is(await store.batches.findBatch(over.id), undefined);
  t.not(await store.files.read(input.id, 0, 10), undefined, 'a worker reads it to end the lines');
  t.deepEqual(await store.accounts.listRemovals({ after: '', limit: 10 }), [ann]);
  await endBatches(store);
  t.true(await remove(store));
  await assertGone(t, store, 'removed');
  await assertKept(t, store);
  t.true(await remove(store), 'a repeat changes nothing');
  await assertKept(t, store);
});

test('a removal waits for an upload and for a batch that were on their way when it began', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, ann);
  const upload = fileOf({ account: ann, state: 'writing' });
  await store.batches.insertFile(upload);
  const entry = newRoomEntry({ lines: 1, tokens: 1, since: at });
  const limits = { batchesMax: 9, filesMax: 99, bytesMax: 1e9, tokensMax: 9 };
  await store.batches.changeRoom(ann, enterRoom(running.id, entry, limits));
  t.false(await remove(store));
  await store.batches.changeFile(upload.id, 'writing', { state: 'ready' });
  t.false(await remove(store), 'the batch may still come');
  t.is(await store.batches.findFile(upload.id), undefined);
  t.true(await clearOf(store)(ann, new Date(at.getTime() + 61_000)), 'a minute later it does not');
  t.like(await store.accounts.findAccount(ann), { removal: { isDone: true } });
});

test('ending what an account still has does not bring it back; a new key does, also the one of a device', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const device = 'device:00ff';
  const guest = { secret: 's', pepper: 'p' };
  const mintGuest = () =>
    store.accounts.changeAccount(
      device,
      mintGuestKey({ account: device, plan: 'guest-device', key: defaultKey, guest }, () => true),
    );
  await mintGuest();
  await store.accounts.changeAccount(device, beginRemoval({ ...by, plan: 'guest-device' }));
  t.is(await store.accounts.findKeyOwner([defaultKey.hash]), undefined);
  const action = { requestEnded: 'req_1' };
  await store.accounts.changeAccount(
    device,
    decideAction({ action, by: olga, unknown: { id: device, plan: 'guest-device' } }),
  );
  t.like(await store.accounts.findAccount(device), { removal: { isDone: false, isUsed: undefined } });
  await mintGuest();
  t.like(await store.accounts.findAccount(device), { removal: { isDone: false, isUsed: true }, plan: 'guest-device' });
  t.true(await clearOf(store)(device, later));
  t.like(await store.accounts.findAccount(device), { removal: undefined, plan: 'guest-device' });
  t.is((await store.accounts.findKeyOwner([defaultKey.hash]))?.account, device, 'its new key stays');
  t.is((await store.accounts.findKeyOwner([defaultKey.hash]))?.account, device);
});

test('a pass that takes too long is continued by the next one, at every item', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await fill(store);
  await endBatches(store);
  await remove(store);
  await endBatches(store);
  const changeAccount: ChangeAccount = (id, decide) => store.accounts.changeAccount(id, decide);
  let passes = 0;
  for (let isClear = false; !isClear; passes++) {
    let [clock, items] = [0, 0];
    // Each pass has time for one item.
    const now = () => {
      if (items++ === 2) clock += 20_000;
      return clock;
    };
    isClear = await createClearAccount({ store, changeAccount, now })(ann, at);
    t.true(passes < 20);
  }
  t.true(passes > 1);
  await assertGone(t, store, 'in several passes');
});

/** A store whose calls that change something fail from the given one on: before they are made, or after. */
function dyingStore(store: Store, dies: { at: number; before: boolean }) {
  let calls = 0;
  const isChange = /^(change|remove|insert)/;
  const wrap = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (typeof value === 'object' && value !== null) return wrap(value);
        if (typeof value !== 'function') return value;
        return async (...given: unknown[]) => {
          if (!isChange.test(String(name))) return value.apply(target, given);
          calls += 1;
          if (calls > dies.at || (calls === dies.at && dies.before)) throw new Error('killed');
          const result = await value.apply(target, given);
          if (calls === dies.at) throw new Error('killed');
          return result;
        };
      },
    });
  return { store: wrap(store), calls: () => calls };
}

test('a removal that is interrupted before or after any of its steps ends with the next one, and has one record', async (t) => {
  let steps = Number.POSITIVE_INFINITY;
  for (let at = 1; at <= steps; at++) {
    for (const before of [true, false]) {
      await using home = await createSqliteHome();
      await using store = await home.open();
      await fill(store);
      const dying = dyingStore(store, { at, before });
      const title = `killed ${before ? 'before' : 'after'} step ${at}`;
      // A worker ends the batch between two calls of the operator.
      const outcome = await remove(dying.store)
        .then(() => endBatches(store))
        .then(() => remove(dying.store))
        .catch((error: Error) => error.message);
      if (outcome === true) steps = Math.min(steps, at - 1);
      else t.is(outcome, 'killed', title);
      const isBegun = (await removalsOf(store)).length === 1;
      const owner = await store.accounts.findKeyOwner([defaultKey.hash]);
      t.is(owner === undefined, isBegun, `${title}: keys end with the record`);
      await remove(store);
      await endBatches(store);
      t.true(await remove(store), title);
      await sweep(store);
      await assertGone(t, store, title);
      await assertKept(t, store);
    }
  }
  t.true(steps >= 12, String(steps));
});

test('an account that is used after its removal begins again, stays suspended, and counts no top-up twice', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await fill(store);
  const change = (settings: object, plan = 'free') =>
    store.accounts.changeAccount(
      ann,
      changeSettings({ settings, by: 'user:olga', at: later, unknown: { id: ann, plan } }),
    );
  await change({ suspended: true });
  await remove(store);
  await endBatches(store);
  await remove(store);
  t.like(await store.accounts.findAccount(ann), { suspended: true, removal: { isDone: true } });
  t.deepEqual(await store.accounts.listAccounts({ limit: 10 }).then((all) => all.map(({ id }) => id)), [
    ann,
    'user:bob',
  ]);
  await change({ suspended: false });
  await change({ topUp: { id: 'paid', tokens: 5 } });
  const before = (await store.accounts.findAccount(ann)) as Account;
  t.like(before, { plan: 'free', overageEnabled: false, topUp: undefined, removal: undefined });
  const { account } = await mint(store, ann);
  t.true(account.version > before.version, 'no version comes back');
  t.is((await store.accounts.findKeyOwner([defaultKey.hash]))?.account, undefined);
  await store.accounts.changeAccount(ann, beginRemoval({ ...by, at: later }));
  t.is((await removalsOf(store)).length, 2, 'another removal');
});

const listedOf = async (store: Store) => (await store.accounts.listAccounts({ limit: 10 })).map(({ id }) => id);
const changes = {
  'a suspension': changeSettings({ settings: { suspended: true }, by: 'user:olga', at: later }),
  'a top-up': changeSettings({ settings: { topUp: { id: 'new', tokens: 5 } }, by: 'user:olga', at: later }),
  'a new key': mintKey({ account: ann, plan: 'free', key: newKey() }),
  'a new file': useAgain(later),
};

for (const [name, change] of Object.entries(changes)) {
  test(`a removal that is not done continues after ${name}, and the account is in use again when it ends`, async (t) => {
    await using home = await createSqliteHome();
    await using store = await home.open();
    await fill(store);
    t.false(await remove(store));
    await store.accounts.changeAccount<unknown>(ann, change);
    t.deepEqual(await store.accounts.listRemovals({ after: '', limit: 10 }), [ann]);
    await endBatches(store);
    t.true(await clearOf(store)(ann, later));
    t.deepEqual(await store.batches.listFiles(ann, { limit: 10 }), []);
    t.deepEqual(await store.batches.listBatches(ann, { limit: 10 }), []);
    const { keys = [], suspended, topUp, removal } = (await store.accounts.findAccount(ann)) ?? {};
    t.deepEqual(
      [keys.length > 0, suspended, topUp?.tokens, removal],
      [name === 'a new key', name === 'a suspension', name === 'a top-up' ? 5 : undefined, undefined],
    );
    t.deepEqual(await listedOf(store), [ann, 'user:bob']);
    t.deepEqual(await store.accounts.listRemovals({ after: '', limit: 10 }), []);
    await store.accounts.changeAccount(ann, beginRemoval({ ...by, at: later }));
    t.is((await removalsOf(store)).length, 2, 'it can be removed again');
  });
}

test('a removal removes nothing that was made after it began, and the account is in use then', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await fill(store);
  t.false(await remove(store));
  const file = fileOf({ account: ann, createdAt: later });
  await store.batches.insertFile(file);
  const batch = batchOf({ account: ann, inputFile: file.id, createdAt: later });
  await store.batches.insertBatch(batch);
  const entry = newRoomEntry({ lines: 1, tokens: 1, since: later });
  const limits = { batchesMax: 9, filesMax: 99, bytesMax: 1e9, tokensMax: 9 };
  await store.batches.changeRoom(ann, enterRoom(batch.id, entry, limits));
  const kept = endpointOf({ createdAt: later });
  await store.webhooks.changeWebhooks(ann, (found) => ({
    result: undefined,
    ...(found && { next: { ...found, endpoints: [kept] } }),
  }));
  t.false(await clearOf(store)(ann, later), 'a batch is being cancelled');
  const late = fileOf({ account: ann, createdAt: later, purpose: 'batch_output' });
  await store.batches.insertFile(late);
  await store.batches.changeBatch(running.id, (found) => ({
    result: 0,
    ...(found && { next: { ...found, errorFile: late.id } }),
  }));
  await endBatches(store);
  t.true(await clearOf(store)(ann, later));
  t.deepEqual(await store.batches.listBatches(ann, { limit: 10 }), [batch]);
  t.deepEqual(await store.batches.listFiles(ann, { limit: 10 }), [file], 'without the file of an older batch');
  t.deepEqual((await store.webhooks.findWebhooks(ann))?.endpoints, [kept]);
  t.is((await store.accounts.findAccount(ann))?.removal, undefined);
  t.deepEqual(await listedOf(store), [ann, 'user:bob']);
});

test('what is made after a removal brings the account back once; what was on its way before does not', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, ann);
  await store.accounts.changeAccount(ann, beginRemoval(by));
  await store.accounts.changeAccount(ann, useAgain(at));
  t.like(
    await store.accounts.findAccount(ann),
    { removal: { isUsed: undefined, isDone: false } },
    'it is older, and is removed',
  );
  t.true(await clearOf(store)(ann, at));
  t.deepEqual(await listedOf(store), []);
  await store.accounts.changeAccount(ann, useAgain(at));
  t.deepEqual(await listedOf(store), [ann], 'nothing removes it any more');
  t.is(useAgain(at)(await store.accounts.findAccount(ann)).next, undefined);
  t.is(useAgain(at)(undefined).next, undefined);
});

test('a repeated removal removes what was made in the meantime, and has no record of its own', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, ann);
  t.true(await remove(store));
  await store.batches.insertFile(fileOf({ account: ann, createdAt: later }));
  await store.accounts.changeAccount(ann, beginRemoval({ ...by, at: later }));
  t.true(await clearOf(store)(ann, later));
  t.deepEqual(await store.batches.listFiles(ann, { limit: 10 }), []);
  t.like(await store.accounts.findAccount(ann), { removal: { isDone: true, at: later } });
  t.is((await removalsOf(store)).length, 1);
});

test('an endpoint that a pass did not see does not stay: the next pass removes it, or its account is in use', async (t) => {
  const insert = (store: Store) =>
    store.webhooks.changeWebhooks(ann, () => ({
      result: undefined,
      next: webhooksOf(ann, [endpointOf({ createdAt: at })]),
    }));
  for (const isUsed of [false, true]) {
    await using home = await createSqliteHome();
    await using store = await home.open();
    await mint(store, ann);
    await store.accounts.changeAccount(ann, beginRemoval(by));
    if (isUsed) await store.accounts.changeAccount(ann, useAgain(later));
    const pass = createClearAccount({
      store,
      async changeAccount(id, decide) {
        await insert(store);
        await store.accounts.changeAccount(ann, useAgain(at));
        return store.accounts.changeAccount(id, decide);
      },
    });
    t.false(await pass(ann, at), 'it has looked before the endpoint was stored');
    t.like(await store.accounts.findAccount(ann), { removal: { isDone: false, isUsed: isUsed || undefined } });
    t.true(await clearOf(store)(ann, later));
    t.deepEqual((await store.webhooks.findWebhooks(ann))?.endpoints, []);
    t.deepEqual(await listedOf(store), isUsed ? [ann] : []);
    t.is((await removalsOf(store)).length, 1);
  }
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, ann);
  await store.accounts.changeAccount(ann, beginRemoval(by));
  const pass = createClearAccount({
    store,
    async changeAccount(id, decide) {
      await insert(store);
      const result = await store.accounts.changeAccount(id, decide);
      await store.accounts.changeAccount(ann, useAgain(at));
      return result;
    },
  });
  t.true(await pass(ann, at));
  t.deepEqual(await listedOf(store), [ann]);
});

test('removing an account that is gone and has nothing changes nothing, also if it is suspended', async (t) => {
  for (const suspended of [false, true]) {
    await using home = await createSqliteHome();
    await using store = await home.open();
    await mint(store, ann);
    await store.accounts.changeAccount(ann, changeSettings({ settings: { suspended }, by: 'user:olga', at }));
    t.true(await remove(store));
    const gone = await store.accounts.findAccount(ann);
    const again = beginRemoval({ ...by, at: later, isEmpty: true });
    t.is(again(gone).next, undefined);
    t.true(await clearOf(store)(ann, later));
    t.deepEqual(await store.accounts.findAccount(ann), gone);
    await store.accounts.changeAccount(ann, useAgain(later));
    t.not(again(await store.accounts.findAccount(ann)).next, undefined, 'it was used');
  }
});

test('a pass of an earlier removal does not end a later one', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, ann);
  await store.accounts.changeAccount(ann, beginRemoval(by));
  const clear = createClearAccount({
    store,
    changeAccount: async (id, decide) => {
      await store.accounts.changeAccount(ann, beginRemoval({ ...by, at: later }));
      return store.accounts.changeAccount(id, decide);
    },
  });
  t.false(await clear(ann, at));
  t.like(await store.accounts.findAccount(ann), { removal: { isDone: false, at: later } });
});
