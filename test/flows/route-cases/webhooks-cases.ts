import type { Route } from '../../support/documented-answers.ts';
import type { KeyClient } from '../../support/key-client.ts';
import { as, type Case, conflict, fieldCases, notFound, ok } from './case.ts';
import type { Cast } from './open-cases.ts';

export const webhookEnv = {
  WEBHOOK_SECRET_KEY: 'a key of at least 32 characters for the secrets of webhooks',
  WEBHOOK_HOSTS_PRIVATE: 'localhost:*',
};
/** Nothing listens on this port. */
const url = 'http://localhost:9/events';
const wanted = { url, events: ['batch.completed', 'key.expiring'] };

/** Endpoints of one account in each state that routes distinguish, and an account that can have no more. */
export async function createWebhookCast(keys: KeyClient) {
  const token = await keys.token('webhooks');
  const fullToken = await keys.token('webhooks-full');
  const create = async (bearer: string) =>
    String((await keys.send('POST', '/v1/webhooks', { bearer, body: wanted })).body.id);
  const [active, disabled] = [await create(token), await create(token)];
  const [toDelete, toRotate] = [await create(token), await create(token)];
  await keys.send('PATCH', `/v1/webhooks/${disabled}`, { bearer: token, body: { enabled: false } });
  const test = await keys.send('POST', `/v1/webhooks/${active}/test`, { bearer: token, body: {} });
  for (let count = 0; count < 10; count++) await create(fullToken);
  return {
    ...{ webhookToken: token, webhookFullToken: fullToken, testedEvent: String(test.body.id) },
    webhookIds: { active, disabled, toDelete, toRotate, anothers: await create(await keys.token('webhooks-another')) },
  };
}

const wrongFields = {
  url: [
    ...['x', 'http://example.com/', 'https://user@127.0.0.1/', `https://example.com/${'x'.repeat(2_100)}`],
    ...['https://example.com:25/', 'https://receiver.invalid/', 'http://10.0.0.1/'],
  ],
  events: [[], ['batch.failed', 'batch.failed'], ['webhook.test']],
  description: ['x'.repeat(201)],
};

/** What is special to the routes of webhooks. */
export function webhooksCases(cast: Cast): Record<Route, Case[]> {
  const { webhookIds: ids, webhookToken, testedEvent } = cast;
  const to = (method: string, path: string, body?: object) => as(webhookToken)(`${method} /v1/webhooks/${path}`, body);
  const create = (body: object, bearer = cast.token) => as(bearer)('POST /v1/webhooks', body);
  const update = (body: object) => to('PATCH', ids.active, body);
  const retry = (webhook: string, event = testedEvent) => to('POST', `${webhook}/deliveries/${event}/retry`, {});
  const deliveries = (query: string) => to('GET', `${ids.active}/deliveries${query}`);
  const described = { ...wanted, description: 'a program' };
  const changed = { ...wanted, description: 'another', enabled: true };
  const waiting = { webhook_id: ids.active, type: 'webhook.test', state: 'waiting' };
  const secret = /^whsec_[A-Za-z0-9+/]{43}=$/;
  const foreign = (method: string, suffix = '', body?: object) =>
    notFound("another account's endpoint", to(method, `${ids.anothers}${suffix}`, body), 'no such webhook endpoint');
  return {
    'GET /v1/webhooks': [ok('an account with endpoints', as(webhookToken)('GET /v1/webhooks'))],
    'POST /v1/webhooks': [
      ...fieldCases((changed) => create({ ...wanted, ...changed }), wrongFields),
      ok('a description', create(described, webhookToken), (t, body) => {
        t.like(body, { ...described, enabled: true, disabled_reason: null });
        t.regex(String(body.secret), secret);
      }),
      conflict('an eleventh endpoint', create(wanted, cast.webhookFullToken), 'at most 10'),
    ],
    'GET /v1/webhooks/wh_:webhook': [
      foreign('GET'),
      ok('an endpoint', to('GET', ids.active), (t, body) => {
        t.like(body, { id: ids.active, ...wanted });
        t.false('secret' in body);
      }),
    ],
    'PATCH /v1/webhooks/wh_:webhook': [
      foreign('PATCH', '', {}),
      ...fieldCases(update, wrongFields),
      ok('nothing', update({}), wanted),
      ok('every field', update(changed), changed),
    ],
    'POST /v1/webhooks/wh_:webhook/rotate-secret': [
      foreign('POST', '/rotate-secret', {}),
      ok('an endpoint', to('POST', `${ids.toRotate}/rotate-secret`, {}), (t, body) => {
        t.regex(String(body.secret), secret);
        t.true(Number(body.old_secrets_until) > Number(body.created_at) + 86_000);
      }),
    ],
    'POST /v1/webhooks/wh_:webhook/test': [
      foreign('POST', '/test', {}),
      ok('an endpoint', to('POST', `${ids.active}/test`, {}), waiting),
      conflict('a disabled endpoint', to('POST', `${ids.disabled}/test`, {}), 'Enable it first'),
    ],
    'GET /v1/webhooks/wh_:webhook/deliveries': [
      foreign('GET', '/deliveries'),
      ok('an endpoint', deliveries('?limit=100&state=waiting'), new RegExp(testedEvent)),
      ok('after the last', deliveries(`?after=evt_${'0'.repeat(32)}`), { data: { length: 0 }, has_more: false }),
      ok('none of a state', deliveries('?state=delivered'), { data: { length: 0 } }),
    ],
    'POST /v1/webhooks/wh_:webhook/deliveries/evt_:event/retry': [
      foreign('POST', `/deliveries/${testedEvent}/retry`, {}),
      ok('a delivery', retry(ids.active), { id: testedEvent, state: 'waiting' }),
      notFound('an unknown event', retry(ids.active, `evt_${'0'.repeat(32)}`), 'no such delivery'),
      notFound('an event of another endpoint', retry(ids.toRotate), 'no such delivery'),
      conflict('a disabled endpoint', retry(ids.disabled), 'Enable it first'),
    ],
    'DELETE /v1/webhooks/wh_:webhook': [
      foreign('DELETE'),
      ok('an endpoint', to('DELETE', ids.toDelete), { id: ids.toDelete, object: 'webhook_endpoint', deleted: true }),
    ],
  };
}
