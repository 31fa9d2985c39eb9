import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import { usageRecord } from '../../shared/store/usage-records.ts';
import type { Route } from '../../support/documented-answers.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import { as, type Case, conflict, fieldCases, invalid, notFound, ok } from './case.ts';
import { deviceOf } from './keys-cases.ts';
import type { Cast, CastParts } from './open-cases.ts';

const device = deviceOf('device-of-gus');

/** What operators can end. */
export async function createActionCast({ keys, store }: CastParts) {
  const helped = createFurtherKeyClient(keys, 'helped');
  const toEnd = await helped.create();
  await keys.newKey('helped');
  await keys.newKey('leaver');
  const byDefault = (await helped.list()).find((key) => key.default);
  const guestKeyId = defaultKeyOf(await store.accounts.findAccount(device))?.id ?? '';
  const line = usageRecord({ requestId: 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXC-1', account: 'user:lines-only' });
  await store.usage.recordUsage([line]);
  return { keyToEnd: toEnd.id, defaultKeyToEnd: byDefault?.id ?? '', lineOfBatch: line.requestId, guestKeyId };
}

/** What is special to the routes with which operators see and change accounts and the fleet. */
export function accountsCases(cast: Cast): Record<Route, Case[]> {
  const operator = as(cast.operator);
  const at = (method: string, suffix = '') =>
    unknownCases((account) => operator(`${method} /admin/accounts/${account}${suffix}`));
  return {
    'GET /admin/accounts': listCases(operator),
    'GET /admin/accounts/:account': [
      ...at('GET'),
      ...accountPaths.map(([path, account]) => ok(path, operator(`GET /admin/accounts/${path}`), { account })),
    ],
    'PATCH /admin/accounts/:account': settingsCases(operator),
    'GET /admin/accounts/:account/usage': at('GET', '/usage'),
    'GET /admin/accounts/:account/requests': at('GET', '/requests'),
    'GET /admin/accounts/:account/batches': at('GET', '/batches'),
    'GET /admin/accounts/:account/quota': at('GET', '/quota'),
    'GET /admin/accounts/:account/limits': at('GET', '/limits'),
    'DELETE /admin/accounts/:account': removalCases(operator),
    'DELETE /admin/accounts/:account/keys/key_:key': revocationCases(cast, operator),
    'GET /admin/audit': auditCases(operator),
    'GET /admin/find': findCases(cast, operator),
    ...fleetCases(operator),
  };
}

type Send = ReturnType<typeof as>;

/** Accounts as they may be written in a path, and the account that each names. */
const accountPaths: readonly [path: string, account: string][] = [
  ['user%3Aalice', 'user:alice'],
  ['user%3a%61lice', 'user:alice'],
  ['user:alice?x=1', 'user:alice'],
  ['user:a%2Fb', 'user:a/b'],
  ['user%3A%C3%BC%20100%25', 'user:ü 100%'],
  [encodeURIComponent(device), device],
];
const noAccounts = ['user:unknown', 'user:', 'user:alice%00', 'user:a%252Fb', 'user:Alice', `device:${'0'.repeat(64)}`];
const unknownCases = (send: (account: string) => Buffer): Case[] =>
  noAccounts.map((account) => notFound(account, send(account), 'no such account'));

function listCases(operator: Send): Case[] {
  const list = (query = '') => operator(`GET /admin/accounts${query}`);
  const named = (...accounts: string[]) => ({
    data: { ...accounts.map((account) => ({ account })), length: accounts.length },
  });
  const rotated = ['user:to-rotate', 'user:to-rotate-masked'];
  return [
    ok('an operator', list(), { data: { length: 20 } }),
    ok('one', list('?limit=1&prefix=user:'), { data: { length: 1 }, has_more: true }),
    ok('one prefix', list('?prefix=user:to-'), named('user:to-revoke', 'user:to-revoke-masked', ...rotated)),
    ok('after one of them', list('?prefix=user:to-&after=user:to-revoke-masked'), named(...rotated)),
    ok('after an unknown id', list('?prefix=user:to-&after=user:to-ro'), named(...rotated)),
    ok('a prefix with an escape', list(`?prefix=${encodeURIComponent('user:ü 1')}`), named('user:ü 100%')),
    ok('a complete id', list(`?prefix=${device}`), named(device)),
    ...['%25', '_', '.*', 'USER:', 'user:%00', '%F0%9F%99%82', '%EF%BF%BF'].map((prefix) =>
      ok(`an unknown prefix: ${prefix}`, list(`?prefix=${prefix}`), named()),
    ),
    ok('after the last', list('?after=%EF%BF%BF'), named()),
  ];
}

function settingsCases(operator: Send): Case[] {
  const change = (body: object, account = 'user:alice') => operator(`PATCH /admin/accounts/${account}`, body);
  const topUp = (tokens: number) => change({ topUp: { id: 'first', tokens } }, 'user:topped');
  const topped = { overageEnabled: true, topUp: 500, changes: { length: 1 } };
  return [
    ...unknownCases((account) => change({ suspended: false }, account)),
    ok('the current value', change({ suspended: false, plan: 'free' })),
    ok('a device on its plan', change({ plan: 'guest-device' }, device)),
    ok('a reason for the current value', change({ suspended: false, reason: 'ü 🙂 "' })),
    ok('the longest reason', change({ suspended: false, reason: '🙂'.repeat(500) })),
    ok('overage that is already on', change({ overageEnabled: true }, 'user:topped')),
    ok('a repeated top-up', topUp(500), topped),
    conflict('other tokens for the same id', topUp(501), 'was made with another number of tokens'),
    ...[{}, { plan: null }].map((body) => invalid('nothing', change(body), 'body: expected plan, overageEnabled')),
    invalid('only a reason', change({ reason: 'why' }), 'reason: expected with plan, overageEnabled'),
    invalid('another plan for a device', change({ plan: 'pro' }, device), 'plan: a device is always'),
    invalid('three errors', change({ plan: 1, suspended: 1, x: 1 }), /plan: .*suspended: .*x: is not known/),
    notFound('the plan of devices for an unknown device', change({ plan: 'guest-device' }, 'device:x')),
    ...fieldCases(change, {
      'reason: expected 1 to 500 characters, no control characters': ['x'.repeat(501), 'a\u0000b', '\u0085'],
      'plan: there is no such plan': ['gold', 'constructor'],
      'plan: the plan guest-device is for devices': ['guest-device'],
      'topUp.id: expected 1 to 128': ['', 'a b', 'x'.repeat(129)].map((id) => ({ id, tokens: 1 })),
      'topUp.tokens: ': [0, 1.5, 1e12 + 1, '1', null].map((tokens) => ({ id: 'a', tokens })),
      'topUp.month: is not known': [{ id: 'a', tokens: 1, month: 'x' }],
    }),
  ];
}

function removalCases(operator: Send): Case[] {
  const remove = (account: string, query = '') => operator(`DELETE /admin/accounts/${account}${query}`);
  const removed = { object: 'account', account: 'user:leaver', deleted: true };
  return [
    ...['an account', 'the same again'].map((title) => ok(title, remove('user:leaver', '?reason=left'), removed)),
    notFound('an unknown account', remove('user:unknown'), 'no such account'),
  ];
}

function revocationCases({ keyToEnd, defaultKeyToEnd, guestKeyId }: Cast, operator: Send): Case[] {
  const revoke = (id: string, account = 'user:helped', query = '') =>
    operator(`DELETE /admin/accounts/${account}/keys/${id}${query}`);
  const revoked =
    (id: string): Case['expected'] =>
    (t, body) => {
      const { keys, changes } = body as { keys: { id: string; state: string }[]; changes: object[] }; // its schema is checked
      t.is(keys.find((key) => key.id === id)?.state, 'revoked');
      t.is(changes.filter((change) => 'keyRevoked' in change && change.keyRevoked === id).length, 1);
    };
  return [
    ok('a further key', revoke(keyToEnd, 'user:helped', '?reason=leaked'), revoked(keyToEnd)),
    ok('the same again', revoke(keyToEnd, 'user:helped', '?reason=again'), revoked(keyToEnd)),
    ok('the default key', revoke(defaultKeyToEnd), revoked(defaultKeyToEnd)),
    notFound('its id in lower case', revoke(keyToEnd.toLowerCase()), 'no such key'),
    notFound("another account's key", revoke(keyToEnd, 'user:alice'), 'no such key'),
    notFound('an unknown account', revoke(keyToEnd, 'user:unknown'), 'no such account'),
    conflict('of a device', revoke(guestKeyId, encodeURIComponent(device)), 'Suspend the device.'),
  ];
}

function auditCases(operator: Send): Case[] {
  const list = (query = '') => operator(`GET /admin/audit${query}`);
  const none = { object: 'list', data: { length: 0 }, first_id: null, last_id: null, has_more: false };
  const change = { overageEnabled: true, topUp: { id: 'first', tokens: 500 } };
  const topped = { kind: 'account', actor: 'user:operator', account: 'user:topped', change, reason: null };
  const one = { data: { length: 1, 0: topped }, has_more: false };
  const isLong: Case['expected'] = (t, { data }) => void t.true(Array.isArray(data) && data.length >= 4);
  return [
    ok('an operator', list(), isLong),
    ok('an account', list('?account=user:topped'), one),
    ok('an account and who changed it', list('?account=user:topped&actor=user:operator&limit=1'), one),
    ok('an actor without changes', list('?actor=user:topped'), none),
    ok('a kind', list('?account=user:topped&kind=account'), one),
    ok('another kind', list('?account=user:topped&kind=batch'), none),
    ok('a time', list('?account=user:topped&start=2026-01-01T00:00:00Z'), one),
    ok('an early time', list('?end=0000-01-01T00:00:00Z'), none),
    ok('a late time', list('?start=9999-12-31T23:59:59.999Z'), none),
    ok('the plan file at the start', list('?kind=plan_file'), {
      data: { length: 1, 0: { actor: null, account: null } },
    }),
    ok('a file', list('?format=csv&account=user:topped'), /^id,at,kind,actor,address,account,change,reason\r\naudit_/),
    ok('a file without records', list('?format=csv&kind=batch&account=user:x'), /^id,[a-z,]+reason\r\n$/),
    invalid('an unknown kind', list('?kind=none'), 'kind'),
    invalid('a day', list('?start=2026-01-01'), 'start: expected a time'),
    ok('an unknown account', list('?account=%24ne'), none),
    ok('before all others', list(`?after=audit_${'Z'.repeat(26)}`), isLong),
    ok('after all others', list(`?after=audit_${'0'.repeat(26)}`), none),
  ];
}

function findCases(cast: Cast, operator: Send): Case[] {
  const find = (text: string) => operator(`GET /admin/find?${new URLSearchParams({ text })}`);
  const shows = (thing: object) => ({ data: [thing] });
  const start = cast.spentKey.slice(0, 10);
  const missing = [
    ...['req_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA'],
    ...['key_unknown', 'not an account', 'svc_%', '名前'],
  ];
  return [
    invalid('no text', operator('GET /admin/find'), 'text: '),
    invalid('a blank text', find(' '), 'text: '),
    ok('an account', find('user:alice'), shows({ kind: 'account', id: 'user:alice' })),
    ok('a name without its kind', find('alice'), shows({ kind: 'account', id: 'user:alice' })),
    ok('accounts of a kind', find('user'), shows({ kind: 'account' })),
    ok('a request', find(cast.spentRequest), shows({ kind: 'request', id: cast.spentRequest })),
    ok('the start of a key', find(start), shows({ kind: 'key' })),
    ok('a whole key, of which only the start is used', find(cast.spentKey), shows({ kind: 'key', id: start })),
    ...missing.map((text) => ok(`"${text}", which there is not`, find(text), { data: { length: 0 } })),
  ];
}

function fleetCases(operator: Send): Record<Route, Case[]> {
  const pausing = (backend: string) => `/admin/fleet/backends/${backend}/pause`;
  const pause = (body: object = { minutes: 1 }, of = 'onprem-a') => operator(`POST ${pausing(of)}`, body);
  const resume = (query = '', of = 'onprem-a') => operator(`DELETE ${pausing(of)}${query}`);
  return {
    'GET /admin/fleet': [
      ok('an operator', operator('GET /admin/fleet'), (t, body) => {
        const { ingresses, workers, pools, backends } = body as Record<string, object[]>; // its schema is checked
        t.deepEqual([ingresses?.length, workers?.length], [1, 1]);
        t.like(pools?.[0], { pool: 'default', workers: 1 });
        t.true(Number(backends?.length) > 0);
      }),
    ],
    'GET /admin/settings': [
      ok('an operator', operator('GET /admin/settings'), (t, body) => {
        t.like(body, { next: null, issues: [], plan_file: { default_plan: 'free' } });
        const { generation, processes } = body as { generation: string; processes: object[] }; // its schema is checked
        t.like(processes, [
          { kind: 'ingress', generation },
          { kind: 'worker', generation, pools: ['default'] },
        ]);
      }),
    ],
    'POST /admin/fleet/backends/:backend/pause': [
      ...fieldCases(pause, { minutes: [0, 1_441] }),
      ok('a day, with a reason', pause({ minutes: 1_440, reason: 'why' }), { paused: { reason: 'why' } }),
      ok('a shorter one', pause(), { backend: 'onprem-a', paused: { reason: null } }),
      notFound('an unknown backend', pause({ minutes: 1 }, 'none'), 'no such backend'),
    ],
    'DELETE /admin/fleet/backends/:backend/pause': [
      ok('one that is paused', resume('?reason=done'), { paused: null }),
      ok('one that is not', resume(), { paused: null }),
      notFound('an unknown backend', resume('', 'none'), 'no such backend'),
    ],
  };
}
