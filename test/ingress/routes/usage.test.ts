import Router from '@koa/router';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { usage } from '../../../ingress/api/response-schemas.ts';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { retrieveAccountUsage } from '../../../ingress/routes/operators/account-usage.ts';
import { retrieveUsage } from '../../../ingress/routes/usage.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { usageRecord } from '../../shared/store/usage-records.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';

/** A listener with both routes for a caller, at this time of Redis, and a store with usage of an account without a document. */
async function start(t: ExecutionContext, now: string) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const admittedAt = new Date('2026-12-31T23:59:59.999Z');
  await store.recordUsage([usageRecord({ account: 'user:ann', month: '2026-12', admittedAt })]);
  const app = new Koa<RequestState>();
  app.use(answerErrors({ log: recordedLog().log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    ctx.state.caller = { account: 'user:ann', plan: 'free', suspended: false, version: 0, overageEnabled: false };
    ctx.state.now = Date.parse(now);
    await next();
  });
  const router = new Router<RequestState>();
  router.get('/usage', retrieveUsage({ store }));
  router.get('/accounts/:account/usage', retrieveAccountUsage({ store }));
  app.use(router.routes());
  const { url } = parts.use(await serveApp(app));
  return (path: string) => fetch(`${url}${path}`);
}

test('the month is the current one by the time of Redis, up to its last millisecond, unless one is requested', async (t) => {
  const asked = async (now: string, path: string) => usage.parse(await (await (await start(t, now))(path)).json());
  const [last, first] = ['2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00.000Z'];
  t.like(await asked(last, '/usage'), { month: '2026-12', total: { requests: 1 }, data: [{ day: '2026-12-31' }] });
  t.like(await asked(first, '/usage'), { month: '2027-01', total: { requests: 0 }, data: { length: 0 } });
  t.like(await asked(first, '/usage?month=2026-12'), { month: '2026-12', total: { requests: 1 } });
});

test('an operator sees usage of an account that has nothing else, and gets 404 if there is no usage', async (t) => {
  const ask = await start(t, '2026-12-31T12:00:00.000Z');
  const found = await ask('/accounts/user:ann/usage');
  t.deepEqual(await found.json(), await (await ask('/usage')).json());
  t.is((await ask('/accounts/user:bob/usage')).status, 404);
});
