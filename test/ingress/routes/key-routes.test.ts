import Router from '@koa/router';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { createKey } from '../../../ingress/authentication/change-keys.ts';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { developerKeyListSchema } from '../../../ingress/routes/developer-keys.ts';
import { keySchema as keyAnswer, keyListSchema } from '../../../ingress/routes/present-key.ts';
import { type ChangeAccount, createRecordedChange } from '../../../shared/account-changes/change-account.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { newKey } from '../../shared/store/store-contract.ts';
import { mountRoutes } from '../../support/api-routes.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';

const keyRoutes = [
  ...['listDeveloperKeys', 'mintDeveloperKey', 'rotateDeveloperKey', 'revokeDeveloperKey'],
  ...['listKeys', 'retrieveKey', 'revokeKey'],
];

/**
 * A listener with routes of keys for an account with one key, whose usage the store fails to read with this error. Each call takes a
 * second.
 */
async function start(t: ExecutionContext, usageFailure: Error) {
  let now = Date.parse('2030-01-01');
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const opened = parts.use(await home.open());
  const key = newKey();
  const create = createKey({ account: 'user:ann', plan: 'free', key, fields: { name: 'a program' } });
  await opened.accounts.changeAccount('user:ann', create);

  const fails = () => Promise.reject(usageFailure);
  const store = { ...opened, usage: { ...opened.usage, findKeyUsage: fails, findUsageByKey: fails } };
  const changeAccount: ChangeAccount = (account, decide) => opened.accounts.changeAccount(account, decide);
  const changeRecorded = createRecordedChange({ changeAccount, store: opened, log: recordedLog().log });
  const app = new Koa<RequestState>();
  app.use(answerErrors({ log: recordedLog().log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    ctx.state.caller = { account: 'user:ann', plan: 'free', suspended: false, version: 1, overageEnabled: false };
    ctx.state.planFile = { defaultPlan: 'free' } as PlanFile; // all that the routes read
    now += 1_000;
    ctx.state.now = now;
    const text = ctx.get('body');
    if (text !== '') ctx.state.body = { text, value: JSON.parse(text) };
    await next();
  });
  const router = new Router<RequestState>();
  const used = {
    store,
    authentication: { changeRecorded, peppers: ['a pepper'] },
    queue: { requestsToEnd: { add: fails } },
  };
  mountRoutes(router, keyRoutes, used);
  app.use(router.routes());
  const { url } = parts.use(await serveApp(app));
  const ask = (path: string, method = 'GET', body?: object) =>
    fetch(`${url}/v1/keys${path}`, { method, headers: body === undefined ? {} : { body: JSON.stringify(body) } });
  return { ask, id: key.id };
}

test('keys are shown and revoked while their usage cannot be read, which is null then', async (t) => {
  const { ask, id } = await start(t, storeUnavailable(new Error('away')));
  t.like(keyListSchema.parse(await (await ask('')).json()), { data: [{ id, usage: null }] });
  t.like(keyAnswer.parse(await (await ask(`/${id}`)).json()), { id, usage: null });
  t.like(keyAnswer.parse(await (await ask(`/${id}`, 'DELETE')).json()), { id, state: 'revoked', usage: null });
});

test('any other failure to read the usage is an internal error', async (t) => {
  const { ask, id } = await start(t, new Error('a row that cannot be read'));
  for (const path of ['', `/${id}`]) t.is((await ask(path)).status, 500, path);
});

test('the developer keys of an account begin and end by the clock of Redis', async (t) => {
  const { ask } = await start(t, new Error('usage is not read'));
  const post = async (path: string, body: object) =>
    (await (await ask(`/developer${path}`, 'POST', body)).json()) as { key: string };
  const { key: first } = await post('', {});
  const { key } = await post('/rotate', { key: first });
  t.like(await post('/revoke', { key }), { key: `${key.slice(0, 10)}****`, plan: 'free', revoked: true });
  const { data } = developerKeyListSchema.parse(await (await ask('/developer')).json());
  const at = (seconds: number) => `2030-01-01T00:00:0${seconds}.000Z`;
  t.like(data, {
    length: 2,
    0: { state: 'revoked', createdAt: at(2), endedAt: at(3) },
    1: { state: 'rotated', createdAt: at(1), endedAt: at(2) },
  });
});
