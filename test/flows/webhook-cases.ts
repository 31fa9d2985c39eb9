import { privateHosts } from '../shared/webhooks/addresses.ts';
import type { Route } from '../support/documented-answers.ts';
import type { KeyClient } from '../support/key-client.ts';
import {
  bodyCases,
  type Case,
  type Credentials,
  callTo,
  conflict,
  invalid,
  notFound,
  ok,
  signedInCases,
  writeCases,
} from './common-cases.ts';

type WebhookCast = Credentials & Awaited<ReturnType<typeof createWebhookCast>>;

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
  const [active, disabled, toDelete, toRotate] = [
    await create(token),
    await create(token),
    await create(token),
    await create(token),
  ];
  await keys.send('PATCH', `/v1/webhooks/${disabled}`, { bearer: token, body: { enabled: false } });
  const test = await keys.send('POST', `/v1/webhooks/${active}/test`, { bearer: token, body: {} });
  for (let count = 0; count < 10; count++) await create(fullToken);
  return {
    ...{ webhookToken: token, webhookFullToken: fullToken, testedEvent: String(test.body.id) },
    webhookIds: { active, disabled, toDelete, toRotate, anothers: await create(await keys.token('webhooks-another')) },
  };
}

const wrongIds = ['wh_x', 'wh_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'wh_01kbn4v4w0r2e9z6y5qh3t8mxa', 'wh_%24ne', 'wh___proto__'];

type Suffixed = { suffix?: string; body?: object };

/** Cases of every id that the account has no endpoint of. */
function wrongWebhookCases(method: string, cast: WebhookCast, { suffix = '', body }: Suffixed = {}): Case[] {
  const at = (id: string) => callTo(method, `/v1/webhooks/${id}${suffix}`)({ bearer: cast.webhookToken, body });
  return [
    ...(method === 'GET' ? signedInCases : writeCases)(
      callTo(method, `/v1/webhooks/${cast.webhookIds.active}${suffix}`),
      cast,
      body,
    ),
    ...wrongIds.map((id) => notFound(`the endpoint "${id}"`, at(id))),
    notFound("another account's endpoint", at(cast.webhookIds.anothers)),
  ];
}

function fieldCases(as: (body: unknown) => Buffer, good: object): Case[] {
  const wrong: Record<string, unknown[]> = {
    url: [
      ...['', 'x', 5, {}, 'http://example.com/', 'https://user@127.0.0.1/', `https://example.com/${'x'.repeat(2_100)}`],
      ...['https://example.com:25/', 'https://receiver.invalid/', 'http://10.0.0.1/'],
    ],
    events: [[], ['batch.done'], 'batch.failed', ['batch.failed', 'batch.failed'], [5], {}, ['webhook.test']],
    description: ['x'.repeat(201), 'a\nb', 5, {}],
    secret: ['whsec_x'],
  };
  return Object.entries(wrong).flatMap(([field, values]) =>
    values.map((value) =>
      invalid(`${field}: ${JSON.stringify(value).slice(0, 30)}`, as({ ...good, [field]: value }), { says: field }),
    ),
  );
}

export function webhookCases(cast: WebhookCast): Partial<Record<Route, Case[]>> {
  const { webhookIds: ids, webhookToken: bearer } = cast;
  const create = callTo('POST', '/v1/webhooks');
  const list = callTo('GET', '/v1/webhooks');
  const to = (method: string, path: string, body?: object) => callTo(method, `/v1/webhooks/${path}`)({ bearer, body });
  const update = callTo('PATCH', `/v1/webhooks/${ids.active}`);
  const retry = `/deliveries/${cast.testedEvent}/retry`;
  const deliveries = `${ids.active}/deliveries`;
  const privateHostCases = privateHosts.map((host) => {
    const body = { ...wanted, url: `https://${host}/` };
    return invalid(`the host ${host}`, create({ bearer: cast.token, body }), { says: 'not public' });
  });
  return {
    'GET /v1/webhooks': [
      ...signedInCases(list, cast),
      ok('an account', list({ bearer })),
      ok('an account without any', list({ bearer: cast.token })),
    ],
    'POST /v1/webhooks': [
      ...writeCases(create, cast, wanted),
      ...bodyCases(create, wanted, cast.token),
      ...fieldCases((body) => create({ bearer: cast.token, body }), wanted),
      ...privateHostCases,
      invalid('no events', create({ bearer: cast.token, body: { url } }), { says: 'events: ' }),
      ok('a description', create({ bearer, body: { ...wanted, description: 'a program' } }), {
        check: (t, body) => {
          t.like(body, { ...wanted, description: 'a program', enabled: true, disabled_reason: null });
          t.regex(String(body.secret), /^whsec_[A-Za-z0-9+/]{43}=$/);
        },
      }),
      conflict('an eleventh endpoint', create({ bearer: cast.webhookFullToken, body: wanted }), { says: 'at most 10' }),
    ],
    'GET /v1/webhooks/wh_:webhook': [
      ...wrongWebhookCases('GET', cast),
      ok('an endpoint', to('GET', ids.active), {
        check: (t, body) => {
          t.like(body, { id: ids.active, ...wanted });
          t.false('secret' in body);
        },
      }),
    ],
    'PATCH /v1/webhooks/wh_:webhook': [
      ...wrongWebhookCases('PATCH', cast, { body: {} }),
      ...bodyCases(update, {}, bearer),
      ...fieldCases((body) => update({ bearer, body }), {}),
      invalid('a text for a switch', update({ bearer, body: { enabled: 'true' } }), { says: 'enabled: ' }),
      ok('nothing', update({ bearer, body: {} }), { check: (t, body) => void t.like(body, wanted) }),
      ok('every field', update({ bearer, body: { ...wanted, description: 'another', enabled: true } }), {
        check: (t, body) => void t.like(body, { ...wanted, description: 'another', enabled: true }),
      }),
    ],
    'POST /v1/webhooks/wh_:webhook/rotate-secret': [
      ...wrongWebhookCases('POST', cast, { suffix: '/rotate-secret', body: {} }),
      ...bodyCases(callTo('POST', `/v1/webhooks/${ids.toRotate}/rotate-secret`), {}, bearer),
      ok('an endpoint', to('POST', `${ids.toRotate}/rotate-secret`, {}), {
        check: (t, body) => {
          t.regex(String(body.secret), /^whsec_[A-Za-z0-9+/]{43}=$/);
          t.true(Number(body.old_secrets_until) > Number(body.created_at) + 86_000);
        },
      }),
    ],
    'POST /v1/webhooks/wh_:webhook/test': [
      ...wrongWebhookCases('POST', cast, { suffix: '/test', body: {} }),
      ...bodyCases(callTo('POST', `/v1/webhooks/${ids.active}/test`), {}, bearer),
      ok('an endpoint', to('POST', `${ids.active}/test`, {}), {
        check: (t, body) => void t.like(body, { webhook_id: ids.active, type: 'webhook.test', state: 'waiting' }),
      }),
      conflict('a disabled endpoint', to('POST', `${ids.disabled}/test`, {}), { says: 'Enable it first' }),
    ],
    'GET /v1/webhooks/wh_:webhook/deliveries': [
      ...wrongWebhookCases('GET', cast, { suffix: '/deliveries' }),
      ...['limit=101', 'after=x', 'state=done', 'x=1'].map((query) =>
        invalid(`the query ${query}`, to('GET', `${deliveries}?${query}`), { says: query.split('=')[0] ?? '' }),
      ),
      ok('an endpoint', to('GET', `${deliveries}?limit=100&state=waiting`), {
        check: (t, body) => void t.true(JSON.stringify(body.data).includes(cast.testedEvent)),
      }),
      ok('after the last', to('GET', `${deliveries}?after=evt_${'0'.repeat(32)}`), {
        check: (t, body) => void t.like(body, { data: [], has_more: false }),
      }),
      ok('none of a state', to('GET', `${deliveries}?state=delivered`), {
        check: (t, body) => void t.deepEqual(body.data, []),
      }),
    ],
    'POST /v1/webhooks/wh_:webhook/deliveries/evt_:event/retry': [
      ...wrongWebhookCases('POST', cast, { suffix: retry, body: {} }),
      ...bodyCases(callTo('POST', `/v1/webhooks/${ids.active}${retry}`), {}, bearer),
      ok('a delivery', to('POST', `${ids.active}${retry}`, {}), {
        check: (t, body) => void t.like(body, { id: cast.testedEvent, state: 'waiting' }),
      }),
      ...['evt_x', `evt_${'0'.repeat(32)}`, 'evt_%24ne'].map((id) =>
        notFound(`the event "${id}"`, to('POST', `${ids.active}/deliveries/${id}/retry`, {}), {
          says: 'no such delivery',
        }),
      ),
      notFound('an event of another endpoint', to('POST', `${ids.toRotate}${retry}`, {}), { says: 'no such delivery' }),
      conflict('a disabled endpoint', to('POST', `${ids.disabled}${retry}`, {}), { says: 'Enable it first' }),
    ],
    'DELETE /v1/webhooks/wh_:webhook': [
      ...wrongWebhookCases('DELETE', cast),
      ok('an endpoint', to('DELETE', ids.toDelete), {
        check: (t, body) => void t.deepEqual(body, { id: ids.toDelete, object: 'webhook_endpoint', deleted: true }),
      }),
    ],
  };
}
