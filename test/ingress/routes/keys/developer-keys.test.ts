import Router from '@koa/router';
import test from 'ava';
import Koa from 'koa';
import { developerKeyList } from '../../../../ingress/api/response-schemas.ts';
import { answerErrors } from '../../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../../ingress/request-state.ts';
import {
  listDeveloperKeys,
  mintDeveloperKey,
  revokeDeveloperKey,
  rotateDeveloperKey,
} from '../../../../ingress/routes/keys/developer-keys.ts';
import type { ChangeAccount } from '../../../../shared/account-changes/change-account.ts';
import type { PlanFile } from '../../../../shared/plan-file/plan-file.ts';
import { createSqliteHome } from '../../../shared/store/sqlite-home.ts';
import { recordedLog } from '../../../support/recorded-log.ts';
import { serveApp } from '../../../support/serve-app.ts';

test('the developer keys of an account begin and end by the clock of Redis', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const changeAccount: ChangeAccount = (account, decide) => store.changeAccount(account, decide);
  const caller = { account: 'user:ann', plan: 'free', suspended: false, version: 0, overageEnabled: false };
  const planFile = { defaultPlan: 'free' } as PlanFile; // all that the routes read
  let now = Date.parse('2030-01-01');
  const app = new Koa<RequestState>();
  app.use(answerErrors({ log: recordedLog().log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    const text = ctx.get('body');
    now += 1_000;
    Object.assign(ctx.state, { planFile, caller, now, ...(text && { body: { text, value: JSON.parse(text) } }) });
    await next();
  });
  const router = new Router<RequestState>();
  const changes = { changeAccount, peppers: ['a pepper'] };
  router.get('/', listDeveloperKeys({ store }));
  router.post('/', mintDeveloperKey(changes));
  router.post('/rotate', rotateDeveloperKey(changes));
  router.post('/revoke', revokeDeveloperKey(changes));
  app.use(router.routes());
  await using served = await serveApp(app);
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${served.url}${path}`, { method: 'POST', headers: { body: JSON.stringify(body) } });
    return (await answer.json()) as { key: string };
  };

  const { key } = await post('/', {});
  const rotated = await post('/rotate', { key });
  const revoked = await post('/revoke', { key: rotated.key });
  t.deepEqual(revoked, { key: `${rotated.key.slice(0, 10)}****`, plan: 'free', revoked: true } as typeof revoked);
  const { data } = developerKeyList.parse(await (await fetch(`${served.url}/`)).json());
  const at = (seconds: number) => `2030-01-01T00:00:0${seconds}.000Z`;
  t.like(data, {
    length: 2,
    0: { state: 'revoked', createdAt: at(2), endedAt: at(3) },
    1: { state: 'rotated', createdAt: at(1), endedAt: at(2) },
  });
});
