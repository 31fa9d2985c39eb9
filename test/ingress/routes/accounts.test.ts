import Router from '@koa/router';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { secondsOf } from '../../../ingress/api/response-fields.ts';
import { createKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { accountSchema as accountAnswer, changedAccountSchema } from '../../../ingress/routes/accounts.ts';
import { type ChangeAccount, createRecordedChange } from '../../../shared/account-changes/change-account.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { AuditStore } from '../../../shared/store/records/audit-store.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { mint, newKey } from '../../shared/store/store-contract.ts';
import { stageOf } from '../../support/api-routes.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';

const planFile = { defaultPlan: 'free', plans: { free: {}, pro: {} } } as unknown as PlanFile; // all that the route reads

/** A listener with both routes for an operator at an address; `audit` and `changeAccount` replace those of the store. */
async function start(
  t: ExecutionContext,
  replaced: { audit?: Partial<AuditStore>; changeAccount?: ChangeAccount } = {},
) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const { log, lines } = recordedLog();
  const failures = recordedLog();
  const audit = { ...store.audit, ...replaced.audit };
  const changeAccount: ChangeAccount =
    replaced.changeAccount ?? ((account, decide) => store.accounts.changeAccount(account, decide));
  let now = Date.parse('2026-03-01');
  const app = new Koa<RequestState>();
  app.use(answerErrors({ log: failures.log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    const caller = { account: 'user:olga', plan: 'free', suspended: false, version: 0, overageEnabled: false };
    const text = ctx.get('body');
    const body = text === '' ? {} : { body: { text, value: JSON.parse(text) as object } };
    now += 1;
    Object.assign(ctx.state, { planFile, caller, now, address: '198.51.100.7', requestId: 'req_1', ...body });
    await next();
  });
  const router = new Router<RequestState>();
  router.get('/:account', stageOf('retrieveAccount', { store: { ...store, audit } }));
  const changeRecorded = createRecordedChange({ changeAccount, store: { audit }, log });
  router.patch('/:account', stageOf('updateAccount', { authentication: { changeRecorded } }));
  app.use(router.routes());
  const { url } = parts.use(await serveApp(app));
  return {
    store,
    lines,
    /** The cause of each 503. */
    failures: failures.lines,
    get: async () => accountAnswer.parse(await (await fetch(`${url}/user:ann`)).json()),
    patch: (body: object) => fetch(`${url}/user:ann`, { method: 'PATCH', headers: { body: JSON.stringify(body) } }),
  };
}

const why = { suspended: true, reason: 'abuse' };

test('a change is one line in the log, with all fields of its record', async (t) => {
  const { store, lines, failures, patch } = await start(t);
  t.like(changedAccountSchema.parse(await (await patch(why)).json()), {
    suspended: true,
    changes: [{ by: 'user:olga' }],
  });
  const [record] = await store.audit.listAudit({ limit: 10 });
  t.like(record, { reason: 'abuse', address: '198.51.100.7' });
  t.deepEqual(lines, [
    { level: 'info', fields: { requestId: 'req_1', audit: record }, message: 'an account was changed' },
  ]);
  const again = await patch(why);
  t.deepEqual(failures, []);
  t.is(again.status, 200);
  t.is(lines.length, 1, 'a setting with its current value is no change');
});

test('a change succeeds if its record cannot be copied', async (t) => {
  const failure = storeUnavailable(new Error('away'));
  const { store, lines, patch } = await start(t, { audit: { copyAudit: () => Promise.reject(failure) } });
  t.is((await patch(why)).status, 200);
  t.like(await store.audit.listAudit({ limit: 10 }), { length: 1, 0: { reason: 'abuse' } });
  t.like(lines, {
    length: 2,
    1: { level: 'warn', fields: { err: failure, account: 'user:ann' } },
  });
});

test('a change that fails is 503, and no line says that it was made', async (t) => {
  const changeAccount = () => Promise.reject(storeUnavailable(new Error('away')));
  const { lines, patch } = await start(t, { changeAccount });
  t.is((await patch(why)).status, 503);
  t.deepEqual(lines, []);
});

test('after its last 200 changes an account shows earlier changes of its settings from the audit trail', async (t) => {
  const { store, get, patch } = await start(t);
  await patch({ plan: 'pro', reason: 'Signed the contract.' });
  await patch({ overageEnabled: true });
  let { account } = await mint(store, 'user:ann');
  t.like(await get(), { changes: { length: 3, 0: { by: 'user:ann' }, 1: { overageEnabled: true } } });
  for (let count = 0; count < 198; count++) {
    const named = { hashes: [defaultKeyOf(account)?.hash ?? ''] };
    account = (await store.accounts.changeAccount('user:ann', rotateKey({ named, key: newKey() }))) ?? account;
  }
  await patch({ suspended: true });
  const { changes } = await get();
  t.is(changes.length, 202);
  t.like(changes[0], { by: 'user:olga', suspended: true });
  t.true(changes.slice(1, 199).every(({ keyRotated }) => keyRotated !== undefined));
  t.truthy(changes[199]?.keyMinted);
  t.like(changes.slice(200), [
    { by: 'user:olga', overageEnabled: true },
    { by: 'user:olga', plan: { from: 'free', to: 'pro' } },
  ]);
});

test('a default key that was rotated by its id is listed once, in its grace and after', async (t) => {
  const { store, get } = await start(t);
  const { account } = await mint(store, 'user:ann');
  const [first, second, third] = [defaultKeyOf(account)?.id ?? '', newKey(), newKey()];
  await store.accounts.changeAccount('user:ann', rotateKey({ named: { id: first }, key: second, graceMs: 60_000 }));
  const inGrace = await get();
  const validUntil = secondsOf(new Date(second.createdAt.getTime() + 60_000));
  t.like(inGrace.keys, {
    length: 2,
    0: { id: second.id, state: 'active' },
    1: { id: first, state: 'rotated', valid_until: validUntil, ended_at: null },
  });
  await store.accounts.changeAccount('user:ann', rotateKey({ named: { id: second.id }, key: third, graceMs: 0 }));
  const after = await get();
  t.deepEqual(after.keys.map(({ id }) => id).sort(), [first, second.id, third.id].sort());
});

test('a rotated key whose expiry comes before the end of its grace is listed with its expiry', async (t) => {
  const { store, get } = await start(t);
  const [first, second] = [newKey(), newKey()];
  const expiresAt = new Date(first.createdAt.getTime() + 30_000);
  const fields = { name: 'a program', expiresAt };
  await store.accounts.changeAccount('user:ann', createKey({ account: 'user:ann', plan: 'free', key: first, fields }));
  await store.accounts.changeAccount('user:ann', rotateKey({ named: { id: first.id }, key: second, graceMs: 60_000 }));
  const listed = (await get()).keys.find(({ id }) => id === first.id);
  t.like(listed, { state: 'rotated', valid_until: secondsOf(expiresAt) });
});
