import { ulid } from 'ulid';
import { hashTopUpCode, makeTopUpCode } from '../../../ingress/routes/top-up-codes.ts';
import type { Route } from '../../support/documented-answers.ts';
import { createTopUpClient } from '../../support/top-up-client.ts';
import { as, type Case, conflict, fieldCases, forbidden, invalid, limited, notFound, ok } from './case.ts';
import type { Cast, CastParts } from './open-cases.ts';

export const topUpPlans = { 'overage-by-operator': { overage: 'operator', model_tiers: ['guest'] } };

/** Codes in each state that routes distinguish. */
export async function createTopUpCast({ keys, store }: CastParts) {
  const client = createTopUpClient(keys);
  const [mine, anothers, revoked, unused] = await client.create({ tokens: 700, count: 4 });
  const [toRevoke] = await client.create({ tokens: 800, note: 'to revoke', expires_at: 4_102_444_800 });
  if (!mine || !anothers || !revoked || !unused || !toRevoke) throw new Error('five codes were created');
  await client.redeem('redeemer', mine.code);
  await client.redeem('bob', anothers.code);
  await client.revoke(revoked.id);
  const expired = { id: `tuc_${ulid()}`, code: makeTopUpCode() };
  const at = new Date('2026-01-01');
  const made = { tokens: 1, createdAt: at, createdBy: 'user:olga', createdFrom: '198.51.100.7', expiresAt: at };
  await store.topUpCodes.insertCodes([{ id: expired.id, hash: hashTopUpCode(expired.code), state: 'unused', ...made }]);
  await keys.change('user:by-operator', { plan: 'overage-by-operator' });
  return {
    ...{ redeemer: await keys.token('redeemer'), byOperator: await keys.token('by-operator') },
    guesser: await keys.token('guesser'),
    topUpCodes: {
      ...{ mine: mine.code, anothers: anothers.code, revoked: revoked.code, expired: expired.code },
      unused: unused.code,
    },
    topUpCodeIds: { redeemed: mine.id, revoked: revoked.id, expired: expired.id, toRevoke: toRevoke.id },
  };
}

const freePlan = {
  plan: 'free',
  requestsPerDay: null,
  tokensPerMonth: 10_000_000,
  models: ['small-chat', 'medium-chat'],
};

/** What is special to the routes of billing: usage, limits, plans, overage and top-up codes. */
export function billingCases(cast: Cast): Record<Route, Case[]> {
  const operator = as(cast.operator);
  const ofAccount = (what: string, account: string) => operator(`GET /admin/accounts/user:${account}/${what}`);
  const guestPlan = { plan: 'guest-device', requestsPerDay: 50, models: ['small-chat'] };
  const topped = { plan: 'free', topUp: 500, overageEnabled: true, used: 0 };
  return {
    'GET /billing/limits': [
      ok('a guest key', as(cast.guestKey)('GET /billing/limits'), { requestsPerDay: { limit: 50 } }),
    ],
    'GET /billing/usage': [
      ...monthCases(as(cast.key), '/billing/usage'),
      ok('an account that was never used', as(cast.newcomer)('GET /billing/usage'), { data: { length: 0 } }),
    ],
    'GET /billing/plan': [
      ...[cast.key, cast.token].map((bearer) => ok('an account', as(bearer)('GET /billing/plan'), freePlan)),
      ok('a guest key', as(cast.guestKey)('GET /billing/plan'), guestPlan),
      ok('a plan with one limit', as(cast.spentKey)('GET /billing/plan'), { tokensPerMonth: 1, requestsAtOnce: null }),
    ],
    'GET /admin/accounts/:account/usage': monthCases(operator, '/admin/accounts/user:alice/usage'),
    'GET /admin/usage': allUsageCases(operator),
    'GET /admin/accounts/:account/quota': [
      ok('an account', ofAccount('quota', 'topped'), topped),
      ok('a suspended account', ofAccount('quota', 'suspended')),
      ok('an account that has used its month', ofAccount('quota', 'spent'), { limit: 1, remaining: 0 }),
    ],
    'GET /admin/accounts/:account/limits': [
      ok('an account', ofAccount('limits', 'topped'), { plan: 'free', requestsAtOnce: { used: 0 } }),
      ok('a suspended account', ofAccount('limits', 'suspended')),
    ],
    'GET /admin/plans': [
      ok('an operator', operator('GET /admin/plans'), { data: [freePlan, { plan: 'pro', tokensPerMonth: null }] }),
    ],
    'PATCH /billing/overage': overageCases(cast),
    'POST /billing/top-ups': redeemCases(cast),
    'GET /admin/top-up-codes': listCodeCases(operator),
    'POST /admin/top-up-codes': createCodeCases(operator),
    'DELETE /admin/top-up-codes/:code': revokeCodeCases(cast, operator),
  };
}

type Send = ReturnType<typeof as>;

/** Cases of a route that accepts a month. */
function monthCases(send: Send, path: string): Case[] {
  const get = (query: string) => send(`GET ${path}?${query}`);
  const none = { month: '2001-02', unit: 'tokens', total: { requests: 0, overageTokens: 0 }, data: { length: 0 } };
  return [
    ok('a month without usage', get('month=2001-02'), none),
    ...reportCases(send, path),
    invalid('a group of other accounts', get('group_by=account'), 'group_by: expected some of'),
    ok('a month as CSV', get('month=2001-02&format=csv')),
  ];
}

/** Cases of a route that accepts a range of days. */
function reportCases(send: Send, path: string): Case[] {
  const get = (query: string) => send(`GET ${path}?${query}`);
  const none = { start: '2001-02-03', end: '2001-02-28', unit: 'tokens', groupBy: ['model'], data: { length: 0 } };
  return [
    ok('a range without usage', get('start=2001-02-03&end=2001-02-28&group_by=model'), none),
    ok('the current month', get('group_by=key'), { groupBy: ['key'] }),
    ok('a range as CSV', get('start=2001-02-03&end=2001-02-28&format=csv')),
    invalid('no day', get('start=2001-02-29'), 'start: expected a day as YYYY-MM-DD'),
  ];
}

function allUsageCases(operator: Send): Case[] {
  const get = (query = '') => operator(`GET /admin/usage${query}`);
  return [
    ...reportCases(operator, '/admin/usage'),
    ok('all', get(), { unit: 'tokens', groupBy: ['account'] }),
    ok('the most charged', get('?order=charged&limit=1')),
    ok('by account', get('?group_by=model,account'), { groupBy: ['account', 'model'] }),
    invalid('a month', get('?month=2001-02'), 'month: is not known'),
    invalid('rows without an order', get('?limit=5'), 'limit: expected with an order of the most'),
  ];
}

function overageCases(cast: Cast): Case[] {
  const turn = (enabled: boolean, bearer = cast.redeemer) => as(bearer)('PATCH /billing/overage', { enabled });
  const bound = (tokens_max: number | null) =>
    as(cast.redeemer)('PATCH /billing/overage', { enabled: false, tokens_max });
  const isRefused = 'On the plan \\"overage-by-operator\\", overage is turned on and off by the operator';
  return [
    ok('on', turn(true), { plan: 'free', unit: 'tokens', overageEnabled: true, overageLimit: null }),
    ok('off', turn(false), { overageEnabled: false }),
    ok('a bound', bound(5), { overageEnabled: false, overageTokensMax: 5 }),
    ok('the bound stays', turn(false), { overageTokensMax: 5 }),
    ok('no bound', bound(null), { overageTokensMax: null, overageLimit: null }),
    ...fieldCases((changed) => as(cast.redeemer)('PATCH /billing/overage', { enabled: true, ...changed }), {
      tokens_max: [0, -1, 1.5, '5', 1e12 + 1],
    }),
    forbidden('a plan that leaves it to operators', turn(true, cast.byOperator), isRefused),
    forbidden('its present value on such a plan', turn(false, cast.byOperator), isRefused),
  ];
}

function redeemCases(cast: Cast): Case[] {
  const { mine, anothers, revoked, expired, unused } = cast.topUpCodes;
  const redeem = (body: object, bearer = cast.redeemer) => as(bearer)('POST /billing/top-ups', body);
  const again = { topUp: 700 };
  return [
    ok('the same code again', redeem({ code: mine }), again),
    ok('typed otherwise', redeem({ code: ` ${mine.toLowerCase().replaceAll('-', '')} ` }), again),
    conflict("another account's", redeem({ code: anothers }), 'Another account has redeemed this code.'),
    conflict('a revoked code', redeem({ code: revoked }), 'This code was revoked.'),
    conflict('an expired code', redeem({ code: expired }), 'This code has expired.'),
    notFound('an unknown code', redeem({ code: makeTopUpCode() }), 'There is no such code.'),
    ...fieldCases(redeem, { 'code: expected a code like TOPUP-X': ['TOPUP', unused.slice(0, -1), `svc_${unused}`] }),
    invalid('a code as a field name', redeem({ [unused]: 1 }), /TOPUP-.{26}…: is not known/),
    limited('after many unknown codes', redeem({ code: unused }, cast.guesser), '"type":"code_failures"'),
  ];
}

function createCodeCases(operator: Send): Case[] {
  const create = (body: object) => operator('POST /admin/top-up-codes', body);
  const thousand = { tokens: 1, count: 1_000, expires_at: 253_402_300_799, note: 'ü 🙂 "' };
  return [
    ok('one code', create({ tokens: 1e12, expires_at: null, note: null }), {
      data: { length: 1, 0: { tokens: 1e12 } },
    }),
    ok('a thousand codes', create(thousand), { data: { length: 1_000, 999: { expires_at: 253_402_300_799 } } }),
    ...fieldCases((changed) => create({ tokens: 1, ...changed }), {
      tokens: [0, 1e12 + 1],
      count: [0, 1_001],
      note: ['x'.repeat(501)],
      'expires_at: expected a time that has not passed': [1_000],
    }),
  ];
}

function listCodeCases(operator: Send): Case[] {
  const list = (query: string) => operator(`GET /admin/top-up-codes${query}`);
  const first = `tuc_${'7Z'.padEnd(26, 'Z')}`;
  const none = { data: { length: 0 }, first_id: null, last_id: null, has_more: false };
  return [
    ...['unused', 'redeemed', 'revoked', 'expired'].map((state) =>
      ok(state, list(`?state=${state}`), (t, { data }) => {
        const states = (data as { state: string }[]).map((code) => code.state); // the list of the service itself
        t.deepEqual([...new Set(states)], [state]);
      }),
    ),
    ok('before all others', list(`?after=${first}&limit=1`), { data: { length: 1 }, has_more: true }),
    ok('after all others', list(`?after=tuc_${'0'.repeat(26)}`), none),
  ];
}

function revokeCodeCases({ topUpCodeIds: { redeemed, revoked, expired, toRevoke } }: Cast, operator: Send): Case[] {
  const revoke = (id: string) => operator(`DELETE /admin/top-up-codes/${id}`);
  const shown = { state: 'revoked', tokens: 800, revoked_by: 'user:operator', redeemed_by: null };
  return [
    ok('an unused code', revoke(toRevoke), shown),
    ok('a revoked code', revoke(revoked), { state: 'revoked' }),
    ok('an expired code', revoke(expired), { state: 'revoked' }),
    conflict('a redeemed code', revoke(redeemed), 'An account has redeemed this code.'),
  ];
}
