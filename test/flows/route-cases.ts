import { createHash } from 'node:crypto';
import { makeKey, maskKey } from '../../ingress/authentication/api-key.ts';
import { settingsWritesKey } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { Stack } from '../stack/stack.ts';
import type { Route } from '../support/documented-answers.ts';
import { fullKey, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import {
  bodyCases,
  type Call,
  type Case,
  callTo,
  conflict,
  eitherCases,
  forbidden,
  headCases,
  invalid,
  invalidKey,
  limited,
  notFound,
  ok,
  signedInCases,
  writeCases,
} from './common-cases.ts';
import { endpointCases } from './endpoint-cases.ts';
import { createFileCast, fileCases, filePlans } from './file-cases.ts';
import { createFurtherCast, furtherKeyCases } from './further-key-cases.ts';
import { createActionCast, operatorActionCases } from './operator-action-cases.ts';
import { operatorViewCases } from './operator-view-cases.ts';
import { requestCases } from './request-cases.ts';
import { createTopUpCast, topUpCases, topUpPlans } from './top-up-cases.ts';
import { createWebhookCast, webhookCases } from './webhook-cases.ts';

/** Callers and their credentials, created once before all cases. */
export type Cast = Awaited<ReturnType<typeof createCast>>;

const deviceOf = (id: string) => `device:${createHash('sha256').update(id).digest('hex')}`;

/** One is of the account whose first request uses up its month. */
export const plans = {
  ...filePlans,
  ...topUpPlans,
  'one-token': { tokens_per_month: 1, model_tiers: ['guest'] },
  // One device sends a request to each endpoint.
  'guest-device': { requests_per_minute: 100, requests_per_day: 50, priority: 100, model_tiers: ['guest'] },
};

/** Accounts and devices in each state that routes distinguish. */
export async function createCast(stack: Stack, keys: KeyClient, store: Store) {
  await limitWritesForAnHour(stack, keys);
  const oldKey = await keys.newKey('rotated');
  await keys.rotate('rotated', oldKey);
  const revokedKey = await keys.newKey('revoked');
  await keys.revoke('revoked', revokedKey);
  const suspendedKey = await keys.newKey('suspended');
  await keys.change('user:suspended', { suspended: true });
  const guestKey = String((await keys.guest('device-of-gus')).body.key);
  const suspendedGuestKey = String((await keys.guest('device-of-sue')).body.key);
  await keys.change(deviceOf('device-of-sue'), { suspended: true });
  await keys.change('user:topped', { overageEnabled: true, topUp: { id: 'first', tokens: 500 } });
  const spentKey = await keys.newKey('spent');
  await keys.change('user:spent', { plan: 'one-token' });
  await keys.infer(spentKey);
  const { data } = (await keys.send('GET', '/v1/requests', { bearer: spentKey })).body as { data: { id: string }[] }; // a list of the service itself
  await keys.newKey('a/b');
  await keys.newKey('ü 100%');
  return {
    key: await keys.newKey('alice'),
    token: await keys.token('alice'),
    expired: await stack.identity.token('alice', { expiresIn: -600 }),
    operator: await keys.token('operator', true),
    suspendedToken: await keys.token('suspended'),
    eagerToken: await keys.token('eager'),
    guestKey,
    suspendedGuestKey,
    suspendedKey,
    spentKey,
    spentRequest: data[0]?.id ?? '',
    rotatedKey: oldKey,
    revokedKey,
    anothersKey: await keys.newKey('bob'),
    toRotate: { key: await keys.newKey('to-rotate'), token: await keys.token('to-rotate') },
    toRotateMasked: { key: await keys.newKey('to-rotate-masked'), token: await keys.token('to-rotate-masked') },
    toRevoke: { key: await keys.newKey('to-revoke'), token: await keys.token('to-revoke') },
    toRevokeMasked: { key: await keys.newKey('to-revoke-masked'), token: await keys.token('to-revoke-masked') },
    newcomer: await keys.token('newcomer'),
    minter: await keys.token('minter'),
    ...(await createFileCast({ stack, keys, store })),
    ...(await createFurtherCast(keys)),
    ...(await createTopUpCast(stack, keys, store)),
    ...(await createWebhookCast(keys)),
    ...(await createActionCast(keys, store, deviceOf('device-of-gus'))),
  };
}

/** The limit lasts a minute, which may be over when its case is sent. */
async function limitWritesForAnHour({ redisUrl }: Pick<Stack, 'redisUrl'>, keys: KeyClient): Promise<void> {
  const redis = openRedis(redisUrl);
  await redis.set(settingsWritesKey('user:eager'), 1e9, 'PX', 3_600_000);
  redis.disconnect();
  await keys.mint('eager');
}

function namedKeyCases(call: Call, cast: Cast): Case[] {
  const as = (body: unknown) => call({ bearer: cast.token, body });
  const wrong: Record<string, string> = {
    'an unknown key': makeKey(),
    'an unknown masked key': maskKey(makeKey()),
    'no key': 'x',
    'no text': '',
    "another's": cast.anothersKey,
    "another account's, masked": maskKey(cast.anothersKey),
    'a guest key': cast.guestKey,
    'a rotated key': cast.rotatedKey,
    revoked: cast.revokedKey,
  };
  return [
    ...writeCases(call, cast, { key: cast.key }),
    ...bodyCases(call, { key: cast.key }, cast.token),
    invalid('no key', as({}), { says: 'key: expected string' }),
    invalid('a key that is a number', as({ key: 5 }), { says: 'key: expected string' }),
    invalid('a key that is null', as({ key: null }), { says: 'key: expected string' }),
    invalid('a list of keys', as({ key: [cast.key] }), { says: 'key: expected string' }),
    invalid('a query', as({ key: { $ne: '' } }), { says: 'key: expected string' }),
    invalid('an unknown field', as({ key: cast.key, plan: 'pro' }), { says: '"plan: is not known"' }),
    invalid('a prototype', as(`{"key":"${cast.key}","__proto__":{}}`), { says: '__proto__: is not known' }),
    ...Object.entries(wrong).map(([title, key]) => invalidKey(title, as({ key }))),
    invalidKey('of an account without any', call({ bearer: cast.newcomer, body: { key: cast.key } })),
  ];
}

/** Accounts as they may be written in a path, and the account that each names. */
const accountPaths: Record<string, string> = {
  'user:alice': 'user:alice',
  'user%3Aalice': 'user:alice',
  'user%3a%61lice': 'user:alice',
  'user:alice?x=1': 'user:alice',
  'user:a%2Fb': 'user:a/b',
  'user%3A%C3%BC%20100%25': 'user:ü 100%',
  [encodeURIComponent(deviceOf('device-of-gus'))]: deviceOf('device-of-gus'),
};
const noAccounts = [
  'user:unknown',
  'alice',
  'user:',
  'user:alice%00',
  'user:a%252Fb',
  'user:Alice',
  `device:${'0'.repeat(64)}`,
  '%24ne',
  '__proto__',
  'constructor',
  '%zz',
  '%',
  '%c3',
  'user:%ED%A0%80',
  'x'.repeat(10_000),
];

type OfAccount = { body?: object; suffix?: string };

function accountCases(method: string, cast: Cast, { body, suffix = '' }: OfAccount = {}): Case[] {
  const call = callTo(method, `/admin/accounts/user:alice${suffix}`);
  const at = (path: string) => callTo(method, `/admin/accounts/${path}${suffix}`)({ bearer: cast.operator, body });
  return [
    ...signedInCases(call, cast, body),
    forbidden('no operator', call({ bearer: cast.token, body }), { says: 'an operator' }),
    ...Object.entries(accountPaths)
      .filter(([path]) => suffix === '' || !path.includes('?'))
      .map(([path, account]) =>
        ok(path, at(path), { check: (t, body) => void t.is(body.account, suffix === '' ? account : undefined) }),
      ),
    ...noAccounts.map((path) => notFound(path.slice(0, 40), at(path))),
  ];
}

/** Cases of a route that accepts a month, for each caller that may request it. */
function monthCases(path: string, bearer: string): Case[] {
  const as = (query: string) => callTo('GET', `${path}?${query}`)({ bearer });
  const none = { month: '2001-02', unit: 'tokens', total: { requests: 0, overageTokens: 0 }, data: { length: 0 } };
  return [
    ok('a month without usage', as('month=2001-02'), { check: (t, body) => void t.like(body, none) }),
    invalid('no month', as('month=2001-02%00'), { says: 'month: expected a month as YYYY-MM' }),
    invalid('an unknown parameter', as('day=2001-02-03'), { says: 'day: is not known' }),
    ...reportCases(path, bearer),
    invalid('a group of other accounts', as('group_by=account'), { says: 'group_by: expected some of' }),
    ok('a month as CSV', as('month=2001-02&format=csv')),
  ];
}

/** Cases of a route that accepts a range of days. */
function reportCases(path: string, bearer: string): Case[] {
  const as = (query: string) => callTo('GET', `${path}?${query}`)({ bearer });
  const none = { start: '2001-02-03', end: '2001-02-28', unit: 'tokens', groupBy: ['model'], data: { length: 0 } };
  return [
    ok('a range without usage', as('start=2001-02-03&end=2001-02-28&group_by=model'), {
      check: (t, body) => void t.like(body, none),
    }),
    ok('the current month', as('group_by=key'), { check: (t, body) => void t.like(body, { groupBy: ['key'] }) }),
    ok('a range as CSV', as('start=2001-02-03&end=2001-02-28&format=csv')),
    invalid('no day', as('start=2001-02-29'), { says: 'start: expected a day as YYYY-MM-DD' }),
  ];
}

function allUsageCases(cast: Cast): Case[] {
  const usage = callTo('GET', '/admin/usage');
  const as = (query: string) => callTo('GET', `/admin/usage?${query}`)({ bearer: cast.operator });
  return [
    ...signedInCases(usage, cast),
    forbidden('no operator', usage({ bearer: cast.token }), { says: 'an operator' }),
    ...reportCases('/admin/usage', cast.operator),
    ok('an operator', usage({ bearer: cast.operator }), {
      check: (t, body) => void t.like(body, { unit: 'tokens', groupBy: ['account'] }),
    }),
    ok('the most charged', as('order=charged&limit=1')),
    ok('by account', as('group_by=model,account'), {
      check: (t, body) => void t.like(body, { groupBy: ['account', 'model'] }),
    }),
    invalid('a month', as('month=2001-02'), { says: 'month: is not known' }),
    invalid('rows without an order', as('limit=5'), { says: 'limit: expected with order=charged' }),
  ];
}

function billingUsageCases(cast: Cast): Case[] {
  const usage = callTo('GET', '/billing/usage');
  return [
    ...eitherCases(usage, cast),
    ...monthCases('/billing/usage', cast.key),
    ok('a key', usage({ bearer: cast.key })),
    ok('a guest key', usage({ bearer: cast.guestKey })),
    ok('a sign-in token', usage({ bearer: cast.token })),
    ok('an account that was never used', usage({ bearer: cast.newcomer }), {
      check: (t, body) => void t.like(body, { unit: 'tokens', total: { requests: 0 }, data: { length: 0 } }),
    }),
  ];
}

const freePlan = {
  plan: 'free',
  requestsPerDay: null,
  tokensPerMonth: 10_000_000,
  models: ['small-chat', 'medium-chat'],
};

function listCases(cast: Cast): Case[] {
  const call = callTo('GET', '/admin/accounts');
  const as = (query: string) => callTo('GET', `/admin/accounts?${query}`)({ bearer: cast.operator });
  const names =
    (...accounts: string[]): NonNullable<Case['check']> =>
    (t, { data }) =>
      // The list of the service itself.
      void t.deepEqual(
        (data as { account: string }[]).map(({ account }) => account),
        accounts,
      );
  const none = { check: names() };
  return [
    ...signedInCases(call, cast),
    forbidden('no operator', call({ bearer: cast.token }), { says: 'an operator' }),
    ok('an operator', call({ bearer: cast.operator }), { check: (t, { data }) => void t.like(data, { length: 20 }) }),
    ok('one', as('limit=1&prefix=user:'), {
      check: (t, body) => void t.like(body, { data: { length: 1 }, has_more: true }),
    }),
    ok('the maximum', as('limit=100')),
    ok('one prefix', as('prefix=user:to-'), {
      check: names('user:to-revoke', 'user:to-revoke-masked', 'user:to-rotate', 'user:to-rotate-masked'),
    }),
    ok('after one of them', as('prefix=user:to-&after=user:to-revoke-masked'), {
      check: names('user:to-rotate', 'user:to-rotate-masked'),
    }),
    ok('after an unknown id', as('prefix=user:to-&after=user:to-ro'), {
      check: names('user:to-rotate', 'user:to-rotate-masked'),
    }),
    ok('a prefix with an escape', as(`prefix=${encodeURIComponent('user:ü 1')}`), { check: names('user:ü 100%') }),
    ok('a complete id', as(`prefix=${deviceOf('device-of-gus')}`), { check: names(deviceOf('device-of-gus')) }),
    ...['%25', '_', '.*', 'USER:', 'user:%00', '%F0%9F%99%82', '%EF%BF%BF'].map((prefix) =>
      ok(`an unknown prefix: ${prefix}`, as(`prefix=${prefix}`), none),
    ),
    ok('after the last', as('after=%EF%BF%BF'), none),
    invalid('a limit of 101', as('limit=101'), { says: 'limit: expected a whole number from 1 to 100' }),
    invalid('a prefix longer than any id', as(`prefix=${'x'.repeat(301)}`), { says: 'prefix: ' }),
    invalid('an unknown parameter', as('before=x'), { says: 'before: is not known' }),
  ];
}

function auditCases(cast: Cast): Case[] {
  const call = callTo('GET', '/admin/audit');
  const as = (query: string) => callTo('GET', `/admin/audit?${query}`)({ bearer: cast.operator });
  const none = { object: 'list', data: { length: 0 }, first_id: null, last_id: null, has_more: false };
  const topped = {
    actor: 'user:operator',
    account: 'user:topped',
    change: { overageEnabled: true, topUp: { id: 'first', tokens: 500 } },
    reason: null,
  };
  const isNone: Pick<Case, 'check'> = { check: (t, body) => void t.like(body, none) };
  return [
    ...signedInCases(call, cast),
    forbidden('no operator', call({ bearer: cast.token }), { says: 'an operator' }),
    ok('an operator', call({ bearer: cast.operator }), {
      check: (t, { data }) => void t.true(Array.isArray(data) && data.length >= 4),
    }),
    ok('one', as('limit=1'), { check: (t, body) => void t.like(body, { data: { length: 1 }, has_more: true }) }),
    ok('the maximum', as('limit=100')),
    ok('an account', as('account=user:topped'), {
      check: (t, { data }) => void t.like(data, { length: 1, 0: topped }),
    }),
    ok('an account and who changed it', as('account=user:topped&actor=user:operator&limit=1'), {
      check: (t, body) => void t.like(body, { data: { length: 1, 0: topped }, has_more: false }),
    }),
    ok('an actor without changes', as('actor=user:topped'), isNone),
    ok('an unknown account', as('account=%24ne'), isNone),
    ok('after an unknown id, before all others', as(`after=audit_${'Z'.repeat(26)}`), {
      check: (t, { data }) => void t.true(Array.isArray(data) && data.length >= 4),
    }),
    ok('after an unknown id, after all others', as(`after=audit_${'0'.repeat(26)}`), isNone),
    ...['', 'audit_', 'batch_01KJMMA2KV0000015QP5D3J9J9', 'audit_01kjmma2kv0000015qp5d3j9j9', '%24ne'].map((after) =>
      invalid(`after "${after}"`, as(`after=${after}`), { says: 'after: expected the id of an audit record' }),
    ),
    invalid('a limit of 101', as('limit=101'), { says: 'limit: expected a whole number from 1 to 100' }),
    invalid('an actor longer than any id', as(`actor=${'x'.repeat(301)}`), { says: 'actor: ' }),
    invalid('an unknown parameter', as('before=x'), { says: 'before: is not known' }),
  ];
}

function settingsCases(cast: Cast): Case[] {
  const of = (account: string) => callTo('PATCH', `/admin/accounts/${account}`);
  const device = deviceOf('device-of-gus');
  const as = (body: unknown, account = 'user:alice') => of(account)({ bearer: cast.operator, body });
  return [
    ...bodyCases(of('user:alice'), { suspended: false }, cast.operator),
    ok('the current value', as({ suspended: false, plan: 'free' })),
    ok('a device on its plan', as({ plan: 'guest-device' }, device)),
    invalid('nothing', as({}), { says: 'body: expected plan, overageEnabled' }),
    ok('a reason for the current value', as({ suspended: false, reason: 'ü 🙂 "' })),
    ok('the longest reason', as({ suspended: false, reason: '🙂'.repeat(500) })),
    invalid('only a reason', as({ reason: 'why' }), { says: 'reason: expected with plan, overageEnabled' }),
    ...['', 'x'.repeat(501), 'a\nb', 'a\u0000b', '\u0085', '\u2028', '\ud800'].map((reason) =>
      invalid(
        `a reason that is not a line of text: ${JSON.stringify(reason).slice(0, 20)}`,
        as({ suspended: false, reason }),
        {
          says: 'reason: expected 1 to 500 characters, no control characters',
        },
      ),
    ),
    ...[5, {}, ['why']].map((reason) =>
      invalid(`a reason that is ${reason}`, as({ suspended: false, reason }), { says: 'reason: expected string' }),
    ),
    invalid('an unknown plan', as({ plan: 'gold' }), { says: 'plan: there is no such plan' }),
    invalid('a plan named like a prototype', as({ plan: 'constructor' }), { says: 'plan: there is no such plan' }),
    invalid('a plan that is a number', as({ plan: 1 }), { says: 'plan: expected string' }),
    invalid('no plan', as({ plan: null }), { says: 'body: expected plan, overageEnabled' }),
    invalid('the plan of devices for an account', as({ plan: 'guest-device' }), { says: /"plan: .*for devices"/ }),
    invalid('another plan for a device', as({ plan: 'pro' }, device), { says: /"plan: a device is always/ }),
    invalid('suspended as text', as({ suspended: 'yes' }), { says: 'suspended: expected boolean' }),
    ok('overage that is already on', as({ overageEnabled: true }, 'user:topped')),
    ok('a repeated top-up', as({ topUp: { id: 'first', tokens: 500 } }, 'user:topped'), {
      check: (t, body) => void t.like(body, { overageEnabled: true, topUp: 500, changes: { length: 1 } }),
    }),
    conflict('other tokens for the same id', as({ topUp: { id: 'first', tokens: 501 } }, 'user:topped'), {
      says: 'was made with another number of tokens',
    }),
    invalid('overage as text', as({ overageEnabled: 'on' }), { says: 'overageEnabled: expected boolean' }),
    invalid('a top-up of zero', as({ topUp: {} }), { says: /topUp.id: .*topUp.tokens: / }),
    invalid('a top-up that is a number', as({ topUp: 5 }), { says: 'topUp: expected object' }),
    invalid('a top-up without an id', as({ topUp: { id: '', tokens: 1 } }), { says: 'topUp.id: expected 1 to 128' }),
    invalid('a top-up with a space', as({ topUp: { id: 'a b', tokens: 1 } }), { says: 'topUp.id: expected 1 to 128' }),
    invalid('a long id', as({ topUp: { id: 'x'.repeat(129), tokens: 1 } }), { says: 'topUp.id: expected 1 to 128' }),
    ...[0, -1, 1.5, 1e12 + 1, '1', null].map((tokens) =>
      invalid(`a top-up of ${tokens}`, as({ topUp: { id: 'a', tokens } }), { says: 'topUp.tokens: ' }),
    ),
    invalid('another field in a top-up', as({ topUp: { id: 'a', tokens: 1, month: 'x' } }), {
      says: 'topUp.month: is not known',
    }),
    invalid('three errors', as({ plan: 1, suspended: 1, x: 1 }), { says: /plan: .*suspended: .*x: is not known/ }),
    notFound('the plan of devices for an unknown device', as({ plan: 'guest-device' }, 'device:x')),
  ];
}

function guestCases(): Case[] {
  const call = callTo('POST', '/v1/keys/guest');
  const as = (body: unknown, ...lines: string[]) => call({ lines, body });
  const gus = { device_id: 'device-of-gus' };
  const says = 'device_id: expected 8 to 256 visible characters';
  return [
    ...headCases(call, undefined, gus),
    ...bodyCases(call, gus),
    ok('a device', as(gus), {
      check: (t, body) => void t.like(body, { plan: 'guest-device', rate_limit_per_day: 50 }),
    }),
    ok('any credential is ignored', as(gus, 'Authorization: Bearer abc')),
    ok('8 characters', as({ device_id: '12345678' }, 'X-Forwarded-For: 10.1.0.1')),
    ok('256 characters', as({ device_id: 'é'.repeat(256) }, 'X-Forwarded-For: 10.1.0.1')),
    invalid('no id', as({}), { says: 'device_id: expected string' }),
    invalid('an id that is a number', as({ device_id: 12345678 }), { says: 'device_id: expected string' }),
    invalid('an unknown field', as({ ...gus, plan: 'pro' }), { says: 'plan: is not known' }),
    invalid('7 characters', as({ device_id: '1234567' }), { says }),
    invalid('257 characters', as({ device_id: 'x'.repeat(257) }), { says }),
    invalid('a space', as({ device_id: '1234 5678' }), { says }),
    invalid('a line feed at its end', as({ device_id: '12345678\n' }), { says }),
    invalid('half a character', as('{"device_id":"12345678\\ud800"}'), { says }),
    forbidden('a suspended device', as({ device_id: 'device-of-sue' }), { says: 'This account is suspended.' }),
    limited('an address beyond its limit', as({ device_id: 'one-too-many' }, 'X-Forwarded-For: 10.9.9.9'), {
      says: /"type":"guest_mints"/,
    }),
  ];
}

/**
 * Every case of every route. Their order does not matter. Each except the first mint, the rotations and the revocations can be sent
 * repeatedly.
 */
export function casesOf(cast: Cast): Record<Route, Case[]> {
  const models = callTo('GET', '/v1/models');
  const model = (name: string, bearer: string) => callTo('GET', `/v1/models/${name}`)({ bearer });
  const quota = callTo('GET', '/billing/quota');
  const plan = callTo('GET', '/billing/plan');
  const limits = callTo('GET', '/billing/limits');
  const plans = callTo('GET', '/admin/plans');
  const list = callTo('GET', '/v1/keys/developer');
  const mint = callTo('POST', '/v1/keys/developer');
  const rotate = callTo('POST', '/v1/keys/developer/rotate');
  const revoke = callTo('POST', '/v1/keys/developer/revoke');
  const nameOf = ({ key, token }: { key: string; token: string }) => ({ bearer: token, body: { key } });
  const maskOf = ({ key, token }: { key: string; token: string }) => ({ bearer: token, body: { key: maskKey(key) } });
  return {
    ...endpointCases(cast),
    ...furtherKeyCases(cast),
    ...topUpCases(cast),
    ...webhookCases(cast),
    'GET /v1/models': [
      ...eitherCases(models, cast),
      ok('a key', models({ bearer: cast.key })),
      ok('a guest key', models({ bearer: cast.guestKey })),
      ok('a sign-in token', models({ bearer: cast.token })),
    ],
    'GET /v1/models/*model': [
      ...eitherCases(callTo('GET', '/v1/models/small-chat'), cast),
      ok('a key', model('small-chat', cast.key)),
      ok('a sign-in token', model('small-chat', cast.token)),
      notFound('an unknown model', model('constructor', cast.key)),
      notFound('a broken escape', model('%zz', cast.key)),
      notFound('a model outside the plan', model('large-chat', cast.key), {
        says: 'There is no such model \\"large-chat\\"; the plan \\"free\\" has small-chat, medium-chat.',
      }),
    ],
    'GET /v1/account': [
      ...signedInCases(callTo('GET', '/v1/account'), cast),
      ok('an account', callTo('GET', '/v1/account')({ bearer: cast.token }), {
        check: (t, body) =>
          void t.deepEqual(body, { object: 'account', account: 'user:alice', plan: 'free', operator: false }),
      }),
      ok('an operator', callTo('GET', '/v1/account')({ bearer: cast.operator }), {
        check: (t, body) => void t.like(body, { account: 'user:operator', operator: true }),
      }),
    ],
    'GET /v1/keys/developer': [
      ...signedInCases(list, cast),
      ok('an account', list({ bearer: cast.token })),
      ok('an account without any', list({ bearer: cast.newcomer }), {
        check: (t, body) => void t.deepEqual(body, { object: 'list', data: [] }),
      }),
    ],
    'POST /v1/keys/developer': [
      ...writeCases(mint, cast, {}),
      ...bodyCases(mint, {}, cast.token),
      ok('an account without any', mint({ bearer: cast.minter, body: {} }), {
        check: (t, body) => void t.regex(String(body.key), fullKey),
      }),
      ok('a repeated mint', mint({ bearer: cast.token, body: {} }), {
        check: (t, body) => void t.deepEqual(body, { key: maskKey(cast.key), plan: 'free' }),
      }),
      invalid('a field', mint({ bearer: cast.token, body: { plan: 'pro' } }), { says: 'plan: is not known' }),
      invalid('a key as a field name', mint({ bearer: cast.token, body: { [cast.key]: 1, [cast.anothersKey]: 1 } }), {
        says: /^\{"error":"svc_.{28}…: is not known; svc_.{28}…: is not known"/,
      }),
      invalid('a prototype', mint({ bearer: cast.token, body: '{"__proto__":{}}' }), {
        says: '__proto__: is not known',
      }),
    ],
    'POST /v1/keys/developer/rotate': [
      ...namedKeyCases(rotate, cast),
      ok('the key', rotate(nameOf(cast.toRotate))),
      ok('the key, masked', rotate(maskOf(cast.toRotateMasked))),
    ],
    'POST /v1/keys/developer/revoke': [
      ...namedKeyCases(revoke, cast),
      ok('the key', revoke(nameOf(cast.toRevoke))),
      ok('the key, masked', revoke(maskOf(cast.toRevokeMasked))),
    ],
    'POST /v1/keys/guest': guestCases(),
    ...fileCases(cast),
    ...requestCases(cast),
    'GET /billing/quota': [
      ...eitherCases(quota, cast),
      ok('a key', quota({ bearer: cast.key })),
      ok('a sign-in token', quota({ bearer: cast.token })),
    ],
    'GET /billing/limits': [
      ...eitherCases(limits, cast),
      ok('a key', limits({ bearer: cast.key })),
      ok('a sign-in token', limits({ bearer: cast.token })),
      ok('a guest key', limits({ bearer: cast.guestKey }), {
        check: (t, body) => void t.like(body, { plan: 'guest-device', requestsPerDay: { limit: 50 } }),
      }),
    ],
    'GET /billing/usage': billingUsageCases(cast),
    'GET /billing/plan': [
      ...eitherCases(plan, cast),
      ok('a key', plan({ bearer: cast.key }), { check: (t, body) => void t.like(body, freePlan) }),
      ok('a sign-in token', plan({ bearer: cast.token }), { check: (t, body) => void t.like(body, freePlan) }),
      ok('a guest key', plan({ bearer: cast.guestKey }), {
        check: (t, body) => void t.like(body, { plan: 'guest-device', requestsPerDay: 50, models: ['small-chat'] }),
      }),
      ok('a plan with one limit', plan({ bearer: cast.spentKey }), {
        check: (t, body) => void t.like(body, { plan: 'one-token', tokensPerMonth: 1, requestsAtOnce: null }),
      }),
    ],
    'GET /admin/accounts': listCases(cast),
    'GET /admin/accounts/:account': accountCases('GET', cast),
    'PATCH /admin/accounts/:account': [
      ...accountCases('PATCH', cast, { body: { suspended: false } }),
      ...settingsCases(cast),
    ],
    'GET /admin/accounts/:account/usage': [
      ...accountCases('GET', cast, { suffix: '/usage' }),
      ...monthCases('/admin/accounts/user:alice/usage', cast.operator),
    ],
    'GET /admin/usage': allUsageCases(cast),
    'GET /admin/audit': auditCases(cast),
    ...operatorViewCases(cast),
    ...operatorActionCases(cast, deviceOf('device-of-gus')),
    'GET /admin/settings': [
      ...signedInCases(callTo('GET', '/admin/settings'), cast),
      forbidden('no operator', callTo('GET', '/admin/settings')({ bearer: cast.token }), { says: 'an operator' }),
      ok('an operator', callTo('GET', '/admin/settings')({ bearer: cast.operator }), {
        check(t, body) {
          t.like(body, { next: null, issues: [], plan_file: { default_plan: 'free' } });
          const { generation, processes } = body as { generation: string; processes: object[] }; // its schema is checked
          t.like(processes, [
            { kind: 'ingress', generation },
            { kind: 'worker', generation, pools: ['default'] },
          ]);
        },
      }),
    ],
    'GET /admin/plans': [
      ...signedInCases(plans, cast),
      forbidden('no operator', plans({ bearer: cast.token }), { says: 'an operator' }),
      ok('an operator', plans({ bearer: cast.operator }), {
        check: (t, { data }) => void t.like(data, [freePlan, { plan: 'pro', tokensPerMonth: null }]),
      }),
    ],
    'GET /': [
      ...headCases(callTo('GET', '/'), undefined),
      ok('no credential', callTo('GET', '/')({}), {
        check: (t, body) => {
          t.deepEqual(Object.keys(body).sort(), ['console', 'docs', 'openapi']);
          t.is(body.docs, 'https://docs.example.com/here');
        },
      }),
      ok('anything', callTo('GET', '/')({ lines: ['Accept: */*'] })),
    ],
    'GET /openapi.json': [
      ...headCases(callTo('GET', '/openapi.json'), undefined),
      ok('no credential', callTo('GET', '/openapi.json')({}), {
        check: (t, body) => void t.regex(String(body.openapi), /^3\.1/),
      }),
      ok('any credential is ignored', callTo('GET', '/openapi.json')({ bearer: 'abc' })),
    ],
    'GET /plan-file.schema.json': [
      ...headCases(callTo('GET', '/plan-file.schema.json'), undefined),
      ok('no credential', callTo('GET', '/plan-file.schema.json')({}), {
        check: (t, body) =>
          void t.like(body, { title: 'Plan file', required: ['default_plan', 'plans', 'models', 'backends'] }),
      }),
    ],
  };
}
