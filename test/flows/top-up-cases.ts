import { ulid } from 'ulid';
import { hashTopUpCode, makeTopUpCode } from '../../ingress/routes/top-up-codes.ts';
import { codeFailuresKey } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { Stack } from '../stack/stack.ts';
import type { Route } from '../support/documented-answers.ts';
import type { KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { createTopUpClient } from '../support/top-up-client.ts';
import {
  bodyCases,
  type Case,
  type Credentials,
  callTo,
  conflict,
  forbidden,
  invalid,
  limited,
  notFound,
  ok,
  signedInCases,
  writeCases,
} from './common-cases.ts';

type TopUpCast = Credentials & { operator: string } & Awaited<ReturnType<typeof createTopUpCast>>;

export const topUpPlans = { 'overage-by-operator': { overage: 'operator', model_tiers: ['guest'] } };

/** Codes in each state that routes distinguish. */
export async function createTopUpCast(stack: Pick<Stack, 'redisUrl'>, keys: KeyClient, store: Store) {
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
  await limitForAnHour(stack, keys);
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

/** The limit lasts a minute, which may be over when its case is sent. */
async function limitForAnHour({ redisUrl }: Pick<Stack, 'redisUrl'>, keys: KeyClient): Promise<void> {
  const redis = openRedis(redisUrl);
  await redis.set(codeFailuresKey('user:guesser'), 100, 'PX', 3_600_000);
  redis.disconnect();
  await createTopUpClient(keys).redeem('guesser', makeTopUpCode());
}

function overageCases(cast: TopUpCast): Case[] {
  const call = callTo('PATCH', '/billing/overage');
  const as = (body: unknown) => call({ bearer: cast.redeemer, body });
  return [
    ...writeCases(call, cast, { enabled: true }),
    ...bodyCases(call, { enabled: true }, cast.redeemer),
    ok('on', as({ enabled: true }), {
      check: (t, body) => void t.like(body, { plan: 'free', unit: 'tokens', overageEnabled: true, overageLimit: null }),
    }),
    ok('off', as({ enabled: false }), { check: (t, body) => void t.false(body.overageEnabled) }),
    invalid('nothing', as({}), { says: 'enabled: expected boolean' }),
    invalid('a text', as({ enabled: 'on' }), { says: 'enabled: expected boolean' }),
    invalid('null', as({ enabled: null }), { says: 'enabled: expected boolean' }),
    invalid('an unknown field', as({ enabled: true, plan: 'pro' }), { says: 'plan: is not known' }),
    forbidden('a plan that leaves it to operators', call({ bearer: cast.byOperator, body: { enabled: true } }), {
      says: 'On the plan \\"overage-by-operator\\", overage is turned on and off by the operator',
    }),
    forbidden('its present value on such a plan', call({ bearer: cast.byOperator, body: { enabled: false } })),
  ];
}

function redeemCases(cast: TopUpCast): Case[] {
  const call = callTo('POST', '/billing/top-ups');
  const { mine, anothers, revoked, expired, unused } = cast.topUpCodes;
  const as = (code: unknown) => call({ bearer: cast.redeemer, body: { code } });
  const again: Pick<Case, 'check'> = { check: (t, body) => void t.is(body.topUp, 700) };
  return [
    ...writeCases(call, cast, { code: mine }),
    ...bodyCases(call, { code: mine }, cast.redeemer),
    ok('the same code again', as(mine), again),
    ok('in lower case, without dashes, with spaces', as(` ${mine.toLowerCase().replaceAll('-', '')} `), again),
    ok('with letters for digits', as(mine.replaceAll('0', 'O').replaceAll('1', 'l')), again),
    conflict("another account's", as(anothers), { says: 'Another account has redeemed this code.' }),
    conflict('a revoked code', as(revoked), { says: 'This code was revoked.' }),
    conflict('an expired code', as(expired), { says: 'This code has expired.' }),
    notFound('an unknown code', as(makeTopUpCode()), { says: 'There is no such code.' }),
    invalid('no code', call({ bearer: cast.redeemer, body: {} }), { says: 'code: expected string' }),
    ...['', 'TOPUP', unused.slice(0, -1), `${unused}0`, `svc_${unused}`, unused.replace('TOPUP', 'TOPPU')].map((code) =>
      invalid(`"${code.slice(0, 8)}…", ${code.length} long`, as(code), { says: 'code: expected a code like TOPUP-X' }),
    ),
    ...[5, null, ['x']].map((code) => invalid(`${code}`, as(code), { says: 'code: expected string' })),
    invalid('a code as a field name', call({ bearer: cast.redeemer, body: { [unused]: 1 } }), {
      says: /TOPUP-.{26}…: is not known/,
    }),
    limited('after many unknown codes', call({ bearer: cast.guesser, body: { code: unused } }), {
      says: '"type":"code_failures"',
    }),
  ];
}

function createCases(cast: TopUpCast): Case[] {
  const call = callTo('POST', '/admin/top-up-codes');
  const as = (body: unknown) => call({ bearer: cast.operator, body });
  return [
    ...signedInCases(call, cast, { tokens: 1 }),
    ...bodyCases(call, { tokens: 1 }, cast.operator),
    forbidden('no operator', call({ bearer: cast.token, body: { tokens: 1 } }), { says: 'an operator' }),
    ok('one code', as({ tokens: 1e12, expires_at: null, note: null }), {
      check: (t, { data }) => void t.like(data, { length: 1, 0: { tokens: 1e12, expires_at: null } }),
    }),
    ok('a thousand codes', as({ tokens: 1, count: 1_000, expires_at: 253_402_300_799, note: 'ü 🙂 "' }), {
      check: (t, { data }) => void t.like(data, { length: 1_000, 999: { expires_at: 253_402_300_799 } }),
    }),
    invalid('nothing', as({}), { says: 'tokens: expected number' }),
    ...[0, -1, 1.5, 1e12 + 1, '1', null].map((tokens) =>
      invalid(`${tokens} tokens`, as({ tokens }), { says: 'tokens: ' }),
    ),
    ...[0, -1, 1.5, 1_001, '1', {}].map((count) =>
      invalid(`${count} codes`, as({ tokens: 1, count }), { says: 'count: ' }),
    ),
    ...[-1, 1.5, 253_402_300_800, '2030-01-01'].map((expires_at) =>
      invalid(`an end at ${expires_at}`, as({ tokens: 1, expires_at }), { says: 'expires_at: ' }),
    ),
    invalid('an end that has passed', as({ tokens: 1, expires_at: 1_000 }), {
      says: 'expires_at: expected a time that has not passed',
    }),
    ...['', 'x'.repeat(501), 'a\nb', '\ud800'].map((note) =>
      invalid(`the note ${JSON.stringify(note).slice(0, 10)}`, as({ tokens: 1, note }), {
        says: 'note: expected 1 to 500 characters',
      }),
    ),
    invalid('an unknown field', as({ tokens: 1, code: 'x' }), { says: 'code: is not known' }),
  ];
}

function listCases(cast: TopUpCast): Case[] {
  const call = callTo('GET', '/admin/top-up-codes');
  const as = (query: string) => callTo('GET', `/admin/top-up-codes?${query}`)({ bearer: cast.operator });
  const states = (...known: string[]): Pick<Case, 'check'> => ({
    check(t, { data }) {
      const found = (data as { state: string }[]).map(({ state }) => state); // the list of the service itself
      t.deepEqual([...new Set(found)], known);
    },
  });
  return [
    ...signedInCases(call, cast),
    forbidden('no operator', call({ bearer: cast.token }), { says: 'an operator' }),
    ok('an operator', call({ bearer: cast.operator }), { check: (t, { data }) => void t.true(Array.isArray(data)) }),
    ok('the maximum', as('limit=100')),
    ...['unused', 'redeemed', 'revoked', 'expired'].map((state) => ok(state, as(`state=${state}`), states(state))),
    ok('after an unknown id, before all others', as(`after=tuc_${'7Z'.padEnd(26, 'Z')}&limit=1`), {
      check: (t, body) => void t.like(body, { data: { length: 1 }, has_more: true }),
    }),
    ok('after an unknown id, after all others', as(`after=tuc_${'0'.repeat(26)}`), {
      check: (t, body) => void t.like(body, { data: { length: 0 }, first_id: null, last_id: null, has_more: false }),
    }),
    ...['claimed', 'UNUSED', ''].map((state) =>
      invalid(`the state "${state}"`, as(`state=${state}`), { says: 'state: ' }),
    ),
    ...['', 'tuc_', 'key_01KJMMA2KV0000015QP5D3J9J9', '%24ne'].map((after) =>
      invalid(`after "${after}"`, as(`after=${after}`), { says: 'after: expected the id of a top-up code' }),
    ),
    invalid('a limit of 101', as('limit=101'), { says: 'limit: expected a whole number from 1 to 100' }),
    invalid('an unknown parameter', as('before=x'), { says: 'before: is not known' }),
  ];
}

function revokeCases(cast: TopUpCast): Case[] {
  const at = (id: string, bearer = cast.operator) => callTo('DELETE', `/admin/top-up-codes/${id}`)({ bearer });
  const { redeemed, revoked, expired, toRevoke } = cast.topUpCodeIds;
  return [
    ...signedInCases(callTo('DELETE', `/admin/top-up-codes/${revoked}`), cast),
    forbidden('no operator', at(revoked, cast.token), { says: 'an operator' }),
    ok('an unused code', at(toRevoke), {
      check: (t, body) =>
        void t.like(body, { state: 'revoked', tokens: 800, revoked_by: 'user:operator', redeemed_by: null }),
    }),
    ok('a revoked code', at(revoked), { check: (t, body) => void t.is(body.state, 'revoked') }),
    ok('an expired code', at(expired), { check: (t, body) => void t.is(body.state, 'revoked') }),
    conflict('a redeemed code', at(redeemed), { says: 'An account has redeemed this code.' }),
    ...['tuc_x', `tuc_${'0'.repeat(26)}`, 'tuc_%24ne', '__proto__', '%zz', 'x'.repeat(10_000)].map((id) =>
      notFound(`the code "${id.slice(0, 20)}"`, at(id), { says: 'There is no such code.' }),
    ),
  ];
}

export function topUpCases(cast: TopUpCast) {
  return {
    'PATCH /billing/overage': overageCases(cast),
    'POST /billing/top-ups': redeemCases(cast),
    'GET /admin/top-up-codes': listCases(cast),
    'POST /admin/top-up-codes': createCases(cast),
    'DELETE /admin/top-up-codes/:code': revokeCases(cast),
  } satisfies Partial<Record<Route, Case[]>>;
}
