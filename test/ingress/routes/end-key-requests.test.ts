import Router from '@koa/router';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { createKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { type ChangeAccount, createRecordedChange } from '../../../shared/account-changes/change-account.ts';
import type { BatchState } from '../../../shared/batches/batch.ts';
import type { NewKey } from '../../../shared/store/records/key.ts';
import { batchOf, fileOf } from '../../shared/store/batch-records.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { newKey } from '../../shared/store/store-contract.ts';
import { stageOf } from '../../support/api-routes.ts';
import { serveFileRoutes } from '../../support/file-routes.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';

const hour = 3_600_000;

/**
 * The route for an account with a key that has replaced two others, of which one is in its grace, and with batches of each of them. `dies`
 * is asked before each step that leaves something.
 */
async function start(t: ExecutionContext, dies: (step: string) => boolean = () => false) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const opened = parts.use(await home.open());
  const [first, second, third, other] = [aged(newKey(), 3), aged(newKey(), 2), aged(newKey(), 1), newKey()];
  const create = (key: NewKey) => createKey({ account: 'user:ann', plan: 'free', key, fields: { name: 'a' } });
  await opened.accounts.changeAccount('user:ann', create(first));
  await opened.accounts.changeAccount('user:ann', create(other));
  await opened.accounts.changeAccount('user:ann', rotateKey({ named: { id: first.id }, key: second, graceMs: 0 }));
  await opened.accounts.changeAccount(
    'user:ann',
    rotateKey({ named: { id: second.id }, key: third, graceMs: 24 * hour }),
  );

  const batches = new Map<string, string>();
  const keys = { first, second, third, other };
  const insert = async (title: string, keyId: string, state: BatchState, account = 'user:ann') => {
    const batch = batchOf({ keyId, state, account });
    await opened.batches.insertBatch(batch);
    batches.set(title, batch.id);
  };
  for (const [name, { id }] of Object.entries(keys)) await insert(name, id, 'in_progress');
  await insert('validating', third.id, 'validating');
  await insert('finalizing', third.id, 'finalizing');
  await insert('completed', third.id, 'completed');
  await insert('signed in', '', 'in_progress');
  await insert('another account', third.id, 'in_progress', 'user:bob');

  const ended = new Set<string>();
  const die = (step: string) => {
    if (dies(step)) throw new Error(`the process died before: ${step}`);
  };
  const store = {
    ...opened,
    batches: {
      ...opened.batches,
      changeBatch: ((id, decide) => {
        die('cancel');
        return opened.batches.changeBatch(id, decide);
      }) satisfies typeof opened.batches.changeBatch as typeof opened.batches.changeBatch,
    },
  };
  const requestsToEnd = {
    async add(ids: readonly string[]) {
      die('mark');
      for (const id of ids) ended.add(id);
    },
  };
  const changeAccount: ChangeAccount = (account, decide) => {
    die('revoke');
    return opened.accounts.changeAccount(account, decide);
  };
  const changeRecorded = createRecordedChange({ changeAccount, store: opened, log: recordedLog().log });
  const app = new Koa<RequestState>();
  app.use(answerErrors({ log: recordedLog().log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    ctx.state.caller = { account: 'user:ann', plan: 'free', suspended: false, version: 1, overageEnabled: false };
    ctx.state.now = Date.now();
    await next();
  });
  const router = new Router<RequestState>();
  router.delete(
    '/keys/key_:key',
    stageOf('revokeKey', { store, authentication: { changeRecorded }, queue: { requestsToEnd } }),
  );
  app.use(router.routes());
  app.on('error', () => {});
  const { url } = parts.use(await serveApp(app));
  return {
    ...{ keys, ended, store: opened },
    revoke: (id: string, query = '') => fetch(`${url}/keys/${id}${query}`, { method: 'DELETE' }),
    async states(): Promise<Record<string, BatchState | undefined>> {
      const all = [...batches].map(
        async ([title, id]) => [title, (await opened.batches.findBatch(id))?.state] as const,
      );
      return Object.fromEntries(await Promise.all(all));
    },
    async isRevoked(id: string) {
      const account = await opened.accounts.findAccount('user:ann');
      return account?.keys.find((key) => key.id === id)?.state === 'revoked';
    },
  };
}

function aged(key: NewKey, hours: number): NewKey {
  return { ...key, createdAt: new Date(Date.now() - hours * hour) };
}

const before = {
  ...{ first: 'in_progress', second: 'in_progress', third: 'in_progress', other: 'in_progress' },
  ...{ validating: 'validating', finalizing: 'finalizing', completed: 'completed' },
  ...{ 'signed in': 'in_progress', 'another account': 'in_progress' },
};
const after = { ...before, first: 'cancelling', third: 'cancelling', validating: 'cancelling' };

test('a key ends with its requests and batches, and those of the keys before it that have ended', async (t) => {
  const { keys, ended, revoke, states, isRevoked } = await start(t);
  t.is((await revoke(keys.third.id, '?end_requests=true')).status, 200);
  t.true(await isRevoked(keys.third.id));
  t.deepEqual([...ended].toSorted(), [keys.third.id, keys.first.id].toSorted());
  t.deepEqual(await states(), after);
  t.is((await revoke(keys.third.id, '?end_requests=true')).status, 200);
  t.deepEqual(await states(), after);
});

test('requests and batches go on if it is not asked for', async (t) => {
  const { keys, ended, revoke, states, isRevoked } = await start(t);
  t.is((await revoke(keys.third.id)).status, 200);
  t.is((await revoke(keys.third.id, '?end_requests=false')).status, 200);
  t.true(await isRevoked(keys.third.id));
  t.deepEqual([...ended], []);
  t.deepEqual(await states(), before);
  t.is((await revoke(keys.third.id, '?end_requests=1')).status, 400);
  t.is((await revoke(keys.third.id, '?end_requests=true')).status, 200, 'also later');
  t.deepEqual(await states(), after);
});

for (const [step, nth] of [
  ['revoke', 1],
  ['mark', 1],
  ['cancel', 1],
  ['cancel', 2],
  ['cancel', 3],
] as const) {
  test(`a process that dies before: ${step} ${nth}, leaves what a repeat completes`, async (t) => {
    let seen = 0;
    const { keys, ended, revoke, states, isRevoked } = await start(t, (at) => at === step && ++seen === nth);
    t.is((await revoke(keys.third.id, '?end_requests=true')).status, 500);
    t.is(await isRevoked(keys.third.id), step !== 'revoke', 'the key ends first');
    t.is(ended.size > 0, step === 'cancel');
    t.is((await revoke(keys.third.id, '?end_requests=true')).status, 200);
    t.true(await isRevoked(keys.third.id));
    t.is(ended.size, 2);
    t.deepEqual(await states(), after);
  });
}

test('a batch that is created while its key is revoked with its batches is cancelled, too', async (t) => {
  const { keys, store } = await start(t);
  const file = fileOf({ account: 'user:ann' });
  await store.batches.insertFile(file);
  const ids = new Set([keys.third.id]);
  using routes = await serveFileRoutes({ store, requestsToEnd: { has: async (id) => ids.has(id) } });
  const body = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const caller = { account: 'user:ann', plan: 'free', suspended: false, version: 1, overageEnabled: false };
  const create = async (keyId: string | undefined, headers = {}) =>
    (await routes.ask({ ...caller, ...(keyId && { keyId }) }, 'POST', '/v1/batches', body, headers)).json();
  t.is((await create(keys.third.id)).status, 'cancelling');
  t.is((await create(keys.third.id, { 'idempotency-key': 'nightly' })).status, 'cancelling');
  t.like(await create(keys.other.id), { status: 'validating' });
  t.is((await create(undefined)).status, 'validating');
});
