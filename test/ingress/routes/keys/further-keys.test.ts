import Router from '@koa/router';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { createKey } from '../../../../ingress/callers/change-keys.ts';
import { answerErrors } from '../../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../../ingress/request-state.ts';
import { listKeys, retrieveKey, revokeKey } from '../../../../ingress/routes/keys/further-keys.ts';
import { key as keyAnswer, keyList } from '../../../../ingress/routes/keys/key-schemas.ts';
import type { ChangeAccount } from '../../../../shared/account-changes/change-account.ts';
import { storeUnavailable } from '../../../../shared/store/adapters/store-errors.ts';
import { createSqliteHome } from '../../../shared/store/sqlite-home.ts';
import { newKey } from '../../../shared/store/store-contract.ts';
import { recordedLog } from '../../../support/recorded-log.ts';
import { serveApp } from '../../../support/serve-app.ts';

/** A listener with routes of keys for an account with one key, whose usage the store fails to read with this error. */
async function start(t: ExecutionContext, usageFailure: Error) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const opened = parts.use(await home.open());
  const key = newKey();
  const create = createKey({ account: 'user:ann', plan: 'free', key, fields: { name: 'a program' } });
  await opened.changeAccount('user:ann', create);

  const fails = () => Promise.reject(usageFailure);
  const { batches } = opened;
  const findAccount = (id: string) => opened.findAccount(id);
  const store = { findAccount, findKeyUsage: fails, findUsageByKey: fails, batches };
  const changeAccount: ChangeAccount = (account, decide) => opened.changeAccount(account, decide);
  const app = new Koa<RequestState>();
  app.use(answerErrors({ log: recordedLog().log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    ctx.state.caller = { account: 'user:ann', plan: 'free', suspended: false, version: 1, overageEnabled: false };
    ctx.state.now = Date.now();
    await next();
  });
  const router = new Router<RequestState>();
  router.get('/keys', listKeys({ store }));
  router.get('/keys/key_:key', retrieveKey({ store }));
  router.delete('/keys/key_:key', revokeKey({ store, changeAccount, requestsToEnd: { add: fails } }));
  app.use(router.routes());
  const { url } = parts.use(await serveApp(app));
  const ask = (path: string, method = 'GET') => fetch(`${url}/keys${path}`, { method });
  return { ask, id: key.id };
}

test('keys are shown and revoked while their usage cannot be read, which is null then', async (t) => {
  const { ask, id } = await start(t, storeUnavailable(new Error('away')));
  t.like(keyList.parse(await (await ask('')).json()), { data: [{ id, usage: null }] });
  t.like(keyAnswer.parse(await (await ask(`/${id}`)).json()), { id, usage: null });
  t.like(keyAnswer.parse(await (await ask(`/${id}`, 'DELETE')).json()), { id, state: 'revoked', usage: null });
});

test('any other failure to read the usage is an internal error', async (t) => {
  const { ask, id } = await start(t, new Error('a row that cannot be read'));
  for (const path of ['', `/${id}`]) t.is((await ask(path)).status, 500, path);
});
