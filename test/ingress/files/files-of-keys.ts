import type { ExecutionContext } from 'ava';
import type { Batch, StoredFile } from '../../../shared/batches/batch.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import type { KeyScope } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf, fileOf } from '../../shared/store/batch-records.ts';
import { inChunks } from '../../shared/store/file-bytes.ts';
import { type Contract, provesOnStore } from '../../shared/store/store-contract.ts';
import { serveFileRoutes } from '../../support/file-routes.ts';

type Maker = 'own' | 'replaced' | 'other' | 'signedIn' | 'another';
type Made = Record<Maker, { file: string; spare: string; batch: string }>;

const makers: Record<Maker, { account: string; keyId?: string }> = {
  own: { account: 'user:ann', keyId: 'key_own' },
  replaced: { account: 'user:ann', keyId: 'key_before' },
  other: { account: 'user:ann', keyId: 'key_other' },
  signedIn: { account: 'user:ann' },
  another: { account: 'user:bob', keyId: 'key_own' },
};
const mine: readonly Maker[] = ['own', 'replaced'];
const ofAccount: readonly Maker[] = ['own', 'replaced', 'other', 'signedIn'];
const names = Object.keys(makers) as Maker[]; // its keys are the names

/** Which files and batches a key reads, and which of them it changes. */
const table: { title: string; scope: KeyScope | undefined; reads: readonly Maker[]; changes: readonly Maker[] }[] = [
  { title: 'a default key', scope: undefined, reads: ofAccount, changes: ofAccount },
  { title: 'a key without limits', scope: {}, reads: ofAccount, changes: ofAccount },
  { title: 'all', scope: { files: 'all', models: ['small-chat'] }, reads: ofAccount, changes: ofAccount },
  { title: 'read', scope: { files: 'read', replaced: ['key_before'] }, reads: ofAccount, changes: mine },
  { title: 'own', scope: { files: 'own', replaced: ['key_before'] }, reads: mine, changes: mine },
  { title: 'own, never rotated', scope: { files: 'own' }, reads: ['own'], changes: ['own'] },
  { title: 'limited models', scope: { models: ['small-chat'], replaced: ['key_before'] }, reads: mine, changes: mine },
  {
    title: 'limited endpoints',
    scope: { endpoints: ['/v1/chat/completions'], replaced: ['key_before'] },
    reads: mine,
    changes: mine,
  },
  { title: 'none', scope: { files: 'none', replaced: ['key_before'] }, reads: [], changes: [] },
];

const callerWith = (scope: KeyScope | undefined, keyId = 'key_own'): Caller => ({
  ...{ account: 'user:ann', plan: 'free', suspended: false, version: 1, overageEnabled: false, keyId },
  ...(scope && { keyScope: scope }),
});

const newBatch = (file: string) => ({
  input_file_id: file,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
});

/** The routes of files and batches by what a key may use, on any store. */
export function testFilesOfKeys(contract: Contract): void {
  const prove = provesOnStore(contract);
  for (const row of table) {
    prove(`files and batches of a key: ${row.title}`, (t, store) => provesRow(t, store, row));
  }
  prove('what a key makes is its own, and that of its successor', provesOwnership);
  prove('the idempotency key of a batch that a key may not read is that of another request', provesRepeats);
}

async function provesRow(t: ExecutionContext, store: Store, { scope, reads, changes }: (typeof table)[number]) {
  const made = await makeAll(store);
  using routes = await serveFileRoutes({ store });
  const caller = callerWith(scope);
  const status = async (method: string, path: string, body?: object | string) =>
    (await routes.ask(caller, method, path, body)).status;
  const isNone = reads.length === 0;

  for (const name of names) {
    const { file, spare, batch } = made[name];
    const mayRead = isNone ? 403 : reads.includes(name) ? 200 : 404;
    const mayChange = mayRead !== 200 ? mayRead : changes.includes(name) ? 200 : 403;
    t.is(await status('GET', `/v1/files/${file}`), mayRead, `retrieve ${name}`);
    t.is(await status('GET', `/v1/files/${file}/content`), mayRead, `content ${name}`);
    t.is(await status('GET', `/v1/batches/${batch}`), mayRead, `retrieve batch ${name}`);
    t.is(await status('DELETE', `/v1/files/${spare}`), mayChange, `delete ${name}`);
    t.is((await store.batches.findFile(spare)) === undefined, mayChange === 200, `deleted ${name}`);
    t.is(await status('POST', `/v1/batches/${batch}/cancel`), mayChange, `cancel ${name}`);
    t.is((await store.batches.findBatch(batch))?.state === 'cancelling', mayChange === 200, `cancelled ${name}`);
    t.is(await status('POST', '/v1/batches', newBatch(file)), mayRead === 404 ? 400 : mayRead, `create ${name}`);
  }
  if (isNone) {
    for (const path of ['/v1/files', '/v1/batches']) {
      const refused = await routes.ask(caller, 'GET', path);
      t.is(refused.status, 403);
      t.is(refused.json().error, 'This API key may use no files and no batches.');
    }
    t.is(await status('POST', '/v1/files', '{}'), 403);
    return;
  }
  const listed = async (path: string) => (await routes.ask(caller, 'GET', path)).json().data.map(idOf);
  const ids = (kind: 'file' | 'batch') => reads.map((name) => made[name][kind]);
  const stillThere = reads.filter((name) => !changes.includes(name)).map((name) => made[name].spare);
  t.deepEqual((await listed('/v1/files')).toSorted(), [...ids('file'), ...stillThere].toSorted());
  const batches = await listed('/v1/batches?limit=100');
  t.true(ids('batch').every((id) => batches.includes(id)));
  t.is(batches.length, 2 * reads.length, 'each also has the batch that was created');
}

async function provesOwnership(t: ExecutionContext, store: Store): Promise<void> {
  using routes = await serveFileRoutes({ store });
  const own = callerWith({ files: 'own' });
  const { id: file } = (await routes.ask(own, 'POST', '/v1/files', '{}')).json();
  const { id: batch } = (await routes.ask(own, 'POST', '/v1/batches', newBatch(file))).json();
  t.like(await store.batches.findFile(file), { keyId: 'key_own' });
  const others = {
    other: callerWith({ files: 'own' }, 'key_other'),
    successor: callerWith({ files: 'own', replaced: ['key_own'] }, 'key_next'),
  };
  for (const [path, expected] of [
    [`/v1/files/${file}`, 200],
    [`/v1/batches/${batch}`, 200],
  ] as const) {
    t.is((await routes.ask(others.successor, 'GET', path)).status, expected);
    t.is((await routes.ask(others.other, 'GET', path)).status, 404);
  }
}

async function provesRepeats(t: ExecutionContext, store: Store): Promise<void> {
  const made = await makeAll(store);
  using routes = await serveFileRoutes({ store });
  const create = (caller: Caller) =>
    routes.ask(caller, 'POST', '/v1/batches', newBatch(made.own.file), { 'idempotency-key': 'nightly' });
  const first = await create(callerWith(undefined, 'key_other'));
  t.is(first.status, 200);
  const { id } = first.json();
  t.is((await create(callerWith({ files: 'own' }))).status, 422);
  const readable = await create(callerWith({ files: 'read' }));
  t.is(readable.json().id, id);
  t.is(readable.headers.get('idempotent-replayed'), 'true');
}

async function makeAll(store: Store): Promise<Made> {
  const made: Partial<Made> = {};
  for (const name of names) {
    const [file, spare] = [fileOf(makers[name]), fileOf(makers[name])];
    const batch = batchOf({ keyId: '', ...makers[name], state: 'in_progress' });
    await insert(store, { files: [file, spare], batch });
    made[name] = { file: file.id, spare: spare.id, batch: batch.id };
  }
  return made as Made; // it has all names
}

async function insert({ batches, files }: Store, made: { files: StoredFile[]; batch: Batch }): Promise<void> {
  for (const file of made.files) {
    await batches.insertFile({ ...file, bytes: 2 });
    await files.write(file.id, inChunks(Buffer.from('{}'), [2]));
  }
  await batches.insertBatch(made.batch);
}

function idOf({ id }: { id: string }): string {
  return id;
}
