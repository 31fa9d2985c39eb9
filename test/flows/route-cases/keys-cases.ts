import { createHash } from 'node:crypto';
import { makeKey, maskKey } from '../../../ingress/authentication/api-key.ts';
import type { Route } from '../../support/documented-answers.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import type { KeyClient } from '../../support/key-client.ts';
import { soonEnded } from '../../support/soon-ended.ts';
import { as, type Case, conflict, fieldCases, forbidden, invalid, invalidKey, limited, notFound, ok } from './case.ts';
import type { Cast, CastParts } from './open-cases.ts';

export const deviceOf = (id: string) => `device:${createHash('sha256').update(id).digest('hex')}`;

/** Default keys in each state that routes distinguish. */
export async function createDefaultKeyCast({ stack, keys }: CastParts) {
  const rotatedKey = await keys.newKey('rotated');
  await keys.rotate('rotated', rotatedKey);
  const revokedKey = await keys.newKey('revoked');
  await keys.revoke('revoked', revokedKey);
  const suspendedKey = await keys.newKey('suspended');
  await keys.change('user:suspended', { suspended: true });
  const guestKey = String((await keys.guest('device-of-gus')).body.key);
  const suspendedGuestKey = String((await keys.guest('device-of-sue')).body.key);
  await keys.change(deviceOf('device-of-sue'), { suspended: true });
  const changed = async (name: string) => ({ key: await keys.newKey(name), token: await keys.token(name) });
  return {
    key: await keys.newKey('alice'),
    token: await keys.token('alice'),
    expired: await stack.identity.token('alice', { expiresIn: -600 }),
    operator: await keys.token('operator', true),
    suspendedToken: await keys.token('suspended'),
    eagerToken: await keys.token('eager'),
    ...{ rotatedKey, revokedKey, suspendedKey, guestKey, suspendedGuestKey },
    anothersKey: await keys.newKey('bob'),
    toRotate: await changed('to-rotate'),
    toRotateMasked: await changed('to-rotate-masked'),
    toRevoke: await changed('to-revoke'),
    toRevokeMasked: await changed('to-revoke-masked'),
    newcomer: await keys.token('newcomer'),
    minter: await keys.token('minter'),
  };
}

/** Further keys of one account in each state that routes distinguish. */
export async function createFurtherKeyCast(keys: KeyClient) {
  const mine = createFurtherKeyClient(keys, 'further');
  const another = createFurtherKeyClient(keys, 'another');
  const { made: expiring } = await soonEnded((expires_at) => mine.create({ expires_at }));
  const active = await mine.create();
  const [revoked, rotated, toRevoke] = [await mine.create(), await mine.create(), await mine.create()];
  await mine.revoke(revoked.id);
  await mine.rotate(rotated.id, { grace_seconds: 3_600 });
  const toRotate = await mine.create();
  const { body: ofConsole } = await mine.call('POST', '/v1/keys/console', {});
  const full = createFurtherKeyClient(keys, 'full');
  for (let count = 0; count < 100; count++) await full.create();
  await keys.newKey('further');
  const byDefault = (await mine.list()).find((key) => key.default);
  while ((await keys.models(expiring.key)).status === 200);
  return {
    ...{ furtherToken: await keys.token('further'), fullToken: await keys.token('full') },
    ...{ expiredKey: expiring.key, furtherKey: active.key },
    keyIds: {
      ...{ active: active.id, revoked: revoked.id, rotated: rotated.id, toRevoke: toRevoke.id, expired: expiring.id },
      ...{
        toRotate: toRotate.id,
        ofConsole: String(ofConsole.id),
        byDefault: byDefault?.id ?? '',
        anothers: (await another.create()).id,
      },
    },
  };
}

const consoleKey = { name: 'console', purpose: 'console', state: 'active', files: 'none', default: false };

/** What is special to the routes of keys. */
export function keysCases(cast: Cast): Record<Route, Case[]> {
  const alice = as(cast.token);
  return {
    'GET /v1/account': [
      ok('an account', alice('GET /v1/account'), { account: 'user:alice', plan: 'free', operator: false }),
      ok('an operator', as(cast.operator)('GET /v1/account'), { account: 'user:operator', operator: true }),
    ],
    'GET /v1/keys/developer': [
      ok('an account without any', as(cast.newcomer)('GET /v1/keys/developer'), { data: { length: 0 } }),
    ],
    'POST /v1/keys/developer': [
      ok('an account without any', as(cast.minter)('POST /v1/keys/developer', {}), /"key":"svc_[0-9A-Za-z]{38}"/),
      ok('a repeated mint', alice('POST /v1/keys/developer', {}), { key: maskKey(cast.key), plan: 'free' }),
    ],
    'POST /v1/keys/developer/rotate': namedKeyCases('rotate', cast, [cast.toRotate, cast.toRotateMasked]),
    'POST /v1/keys/developer/revoke': namedKeyCases('revoke', cast, [cast.toRevoke, cast.toRevokeMasked]),
    'POST /v1/keys/guest': guestCases(),
    ...furtherKeyCases(cast),
  };
}

type Changed = { key: string; token: string };

function namedKeyCases(change: string, cast: Cast, [full, masked]: [Changed, Changed]): Case[] {
  const name = (bearer: string, key: unknown) => as(bearer)(`POST /v1/keys/developer/${change}`, { key });
  const others = [makeKey(), cast.anothersKey, cast.guestKey, cast.rotatedKey, cast.revokedKey];
  return [
    ok('the key', name(full.token, full.key)),
    ok('the key, masked', name(masked.token, maskKey(masked.key))),
    ...[...others, ...others.map(maskKey), 'x', ''].map((key) => invalidKey(maskKey(key), name(cast.token, key))),
    invalidKey('of an account without any', name(cast.newcomer, cast.key)),
  ];
}

function guestCases(): Case[] {
  const mint = (device_id: unknown, address = '10.1.0.1') =>
    as()('POST /v1/keys/guest', { device_id }, `X-Forwarded-For: ${address}`);
  const gus = { device_id: 'device-of-gus' };
  const visible = 'device_id: expected 8 to 256 visible characters';
  return [
    ok('a device', as()('POST /v1/keys/guest', gus), { plan: 'guest-device', rate_limit_per_day: 50 }),
    ok('any credential is ignored', as('abc')('POST /v1/keys/guest', gus)),
    ok('8 characters', mint('12345678')),
    ok('256 characters', mint('é'.repeat(256))),
    ...['1234567', 'x'.repeat(257), '1234 5678'].map((id) => invalid(id.slice(0, 9), mint(id), visible)),
    forbidden('a suspended device', mint('device-of-sue'), 'This account is suspended.'),
    limited('an address beyond its limit', mint('one-too-many', '10.9.9.9'), '"type":"guest_mints"'),
  ];
}

const wrongFields = {
  'expires_at: expected a time that has not passed': [0, 1],
  endpoints: [[], ['/v1/embeddings', '/v1/embeddings']],
  'endpoints[0]: ': [['/v1/nothing']],
  models: [[], ['no-such-model'], ['constructor'], ['small-chat', 'small-chat']],
  allowed_ips: [[], ['10.1'], [null], Array.from({ length: 51 }, (_, n) => `10.0.0.${n}`)],
  'allowed_ips[1]: ': [['10.0.0.0/8', '10.0.0.0/33']],
  'limits.requests_per_minute: ': [{ requests_per_minute: 0 }],
  limits: [{ tokens_per_month: 1e12 + 1 }, { tokens_per_minute: '5' }, { x: 1 }],
  name: ['', 'x'.repeat(101)],
};

const everySetting = {
  expires_at: 253_402_300_799,
  endpoints: ['/v1/embeddings'],
  models: ['small-chat'],
  allowed_ips: ['192.0.2.0/24', '2001:db8::1'],
  limits: { requests_per_minute: 1, tokens_per_minute: 2, tokens_per_month: 1e12 },
  files: 'read',
};

function furtherKeyCases(cast: Cast): Record<Route, Case[]> {
  const { keyIds: ids } = cast;
  const mine = as(cast.furtherToken);
  const create = (body: object, bearer = cast.token) => as(bearer)('POST /v1/keys', body);
  const update = (id: string, body: object) => mine(`PATCH /v1/keys/${id}`, body);
  const rotate = (id: string, body: object = {}) => mine(`POST /v1/keys/${id}/rotate`, body);
  const name = { name: 'a program' };
  const unset = { expires_at: null, endpoints: null, models: null, allowed_ips: null, limits: null, files: null };
  const replaced = { state: 'active', replaces: { id: ids.toRotate, state: 'rotated' } };
  /** Of every key that is not the account's. */
  const foreign = (method: string, suffix = '', body?: object) => [
    notFound("another account's key", mine(`${method} /v1/keys/${ids.anothers}${suffix}`, body)),
    notFound('of an account without any', as(cast.token)(`${method} /v1/keys/${ids.active}${suffix}`, body)),
  ];
  return {
    'GET /v1/keys': [ok('an account with keys in each state', mine('GET /v1/keys'))],
    'POST /v1/keys': [
      ...fieldCases((changed) => create({ ...name, ...changed }), wrongFields),
      ok('only a name', create(name), { ...name, default: false, state: 'active', files: 'all' }),
      ok('a model', create({ ...name, models: ['small-chat'] }), { files: 'own' }),
      ok('all settings', create({ ...name, ...everySetting }), everySetting),
      conflict('a hundred and first key', create(name, cast.fullToken), 'can have no more'),
    ],
    'POST /v1/keys/console': [
      invalid('a field', as(cast.fullToken)('POST /v1/keys/console', { name: 'x' }), 'name'),
      ok('beside a hundred keys', as(cast.fullToken)('POST /v1/keys/console', {}), consoleKey),
      ok('a second one', as(cast.fullToken)('POST /v1/keys/console', {}), consoleKey),
    ],
    'GET /v1/keys/key_:key': [
      ...foreign('GET'),
      ...Object.entries(ids)
        .filter(([state]) => state !== 'anothers')
        .map(([state, id]) => ok(state, mine(`GET /v1/keys/${id}`), { id })),
    ],
    'PATCH /v1/keys/key_:key': [
      ...foreign('PATCH', '', {}),
      ...fieldCases((changed) => update(ids.active, changed), wrongFields),
      ok('nothing', update(ids.active, {})),
      ok('what it has', update(ids.active, { ...name, ...unset })),
      ok('an expired key', update(ids.expired, name)),
      ok('a key in its grace', update(ids.rotated, name)),
      conflict('the default key', update(ids.byDefault, name), 'no settings'),
      conflict('the key of the console', update(ids.ofConsole, name), 'no settings'),
      conflict('a revoked key', update(ids.revoked, name), 'cannot change'),
    ],
    'DELETE /v1/keys/key_:key': [
      ...foreign('DELETE'),
      ok('an active key', mine(`DELETE /v1/keys/${ids.toRevoke}`), { state: 'revoked' }),
      ok('a revoked key', mine(`DELETE /v1/keys/${ids.revoked}`), { state: 'revoked' }),
      ok('a revoked key and its requests', mine(`DELETE /v1/keys/${ids.revoked}?end_requests=true`)),
    ],
    'POST /v1/keys/key_:key/rotate': [
      ...foreign('POST', '/rotate', {}),
      ...fieldCases((changed) => rotate(ids.active, changed), { grace_seconds: [604_801] }),
      ok('an active key', rotate(ids.toRotate, { grace_seconds: 604_800 }), replaced),
      conflict('a revoked key', rotate(ids.revoked), 'cannot change'),
      conflict('a key in its grace', rotate(ids.rotated), 'cannot change'),
      conflict('an expired key', rotate(ids.expired), 'has expired'),
      conflict('the key of the console', rotate(ids.ofConsole), 'is not rotated'),
    ],
    'GET /v1/key': [
      ok('a further key', as(cast.furtherKey)('GET /v1/key'), { id: ids.active }),
      ok('a default key', as(cast.key)('GET /v1/key'), { default: true }),
    ],
  };
}
