import type { Route } from '../support/documented-answers.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import type { KeyClient } from '../support/key-client.ts';
import {
  bodyCases,
  type Case,
  type Credentials,
  callTo,
  conflict,
  invalid,
  keyCases,
  notFound,
  ok,
  signedInCases,
  writeCases,
} from './common-cases.ts';

type FurtherCast = Credentials & Awaited<ReturnType<typeof createFurtherCast>>;

/** Keys of one account in each state that routes distinguish. */
export async function createFurtherCast(keys: KeyClient) {
  const mine = createFurtherKeyClient(keys, 'further');
  const another = createFurtherKeyClient(keys, 'another');
  const expiring = await mine.create({ expires_at: Math.ceil(Date.now() / 1_000) + 1 });
  const [active, revoked, rotated, toRevoke] = [
    await mine.create(),
    await mine.create(),
    await mine.create(),
    await mine.create(),
  ];
  await mine.revoke(revoked.id);
  await mine.rotate(rotated.id, { grace_seconds: 3_600 });
  const toRotate = await mine.create();
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
      ...{ toRotate: toRotate.id, byDefault: byDefault?.id ?? '', anothers: (await another.create()).id },
    },
  };
}

const wrongIds = [
  ...[
    'key_x',
    'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
    'key_01kbn4v4w0r2e9z6y5qh3t8mxa',
    'key_%24ne',
    'key___proto__',
    'key_%zz',
  ],
];

/** Cases of every id that the account has no key of. */
function wrongKeyCases(
  method: string,
  cast: FurtherCast,
  { suffix = '', body }: { suffix?: string; body?: object } = {},
): Case[] {
  const at = (id: string) => callTo(method, `/v1/keys/${id}${suffix}`)({ bearer: cast.furtherToken, body });
  return [
    ...(method === 'GET' ? signedInCases : writeCases)(
      callTo(method, `/v1/keys/${cast.keyIds.active}${suffix}`),
      cast,
      body,
    ),
    ...wrongIds.map((id) => notFound(`the key "${id}"`, at(id))),
    notFound("another account's key", at(cast.keyIds.anothers)),
    notFound(
      'of an account without any',
      callTo(method, `/v1/keys/${cast.keyIds.active}${suffix}`)({ bearer: cast.token, body }),
    ),
  ];
}

function settingCases(as: (body: unknown) => Buffer, name: object): Case[] {
  const wrong: Record<string, unknown[]> = {
    expires_at: [0, 1, -1, 1.5, '2030-01-01', 253_402_300_800],
    endpoints: [[], ['/v1/nothing'], '/v1/embeddings', ['/v1/embeddings', '/v1/embeddings']],
    models: [[], ['no-such-model'], ['constructor'], [5], 'small-chat', ['small-chat', 'small-chat']],
    allowed_ips: [
      [],
      ['10.1'],
      ['localhost'],
      ['10.0.0.0/33'],
      [null],
      Array.from({ length: 51 }, (_, n) => `10.0.0.${n}`),
    ],
    limits: [5, [], { requests_per_minute: 0 }, { tokens_per_month: 1e12 + 1 }, { tokens_per_minute: '5' }, { x: 1 }],
    files: ['', 'some', 5, ['own'], {}],
    name: ['', 'x'.repeat(101), 'a\nb', 5, ['a']],
    plan: ['pro'],
  };
  return Object.entries(wrong).flatMap(([field, values]) =>
    values.map((value) =>
      invalid(`${field}: ${JSON.stringify(value).slice(0, 30)}`, as({ ...name, [field]: value }), { says: field }),
    ),
  );
}

const everySetting = {
  expires_at: 253_402_300_799,
  endpoints: ['/v1/embeddings'],
  models: ['small-chat'],
  allowed_ips: ['192.0.2.0/24', '2001:db8::1'],
  limits: { requests_per_minute: 1, tokens_per_minute: 2, tokens_per_month: 1e12 },
  files: 'read',
};

export function furtherKeyCases(cast: FurtherCast): Partial<Record<Route, Case[]>> {
  const { keyIds: ids, furtherToken: bearer } = cast;
  const create = callTo('POST', '/v1/keys');
  const list = callTo('GET', '/v1/keys');
  const own = callTo('GET', '/v1/key');
  const to = (method: string, id: string, body?: object, suffix = '') =>
    callTo(method, `/v1/keys/${id}${suffix}`)({ bearer, body });
  const settings = { expires_at: null, endpoints: null, models: null, allowed_ips: null, limits: null, files: null };
  const name = { name: 'a program' };
  return {
    'GET /v1/keys': [
      ...signedInCases(list, cast),
      ok('an account', list({ bearer })),
      ok('an account without any', list({ bearer: cast.token })),
    ],
    'POST /v1/keys': [
      ...writeCases(create, cast, name),
      ...bodyCases(create, name, cast.token),
      ...settingCases((body) => create({ bearer: cast.token, body }), name),
      ok('only a name', create({ bearer: cast.token, body: name }), {
        check: (t, body) => void t.like(body, { ...name, default: false, state: 'active', files: 'all' }),
      }),
      ok('a model', create({ bearer: cast.token, body: { ...name, models: ['small-chat'] } }), {
        check: (t, body) => void t.is(body.files, 'own'),
      }),
      ok('all settings', create({ bearer: cast.token, body: { ...name, ...everySetting } }), {
        check: (t, body) => void t.like(body, everySetting),
      }),
      invalid('no name', create({ bearer: cast.token, body: {} }), { says: 'name: ' }),
      conflict('a hundred and first key', create({ bearer: cast.fullToken, body: name }), { says: 'can have no more' }),
    ],
    'GET /v1/keys/key_:key': [
      ...wrongKeyCases('GET', cast),
      ...Object.entries(ids)
        .filter(([state]) => state !== 'anothers')
        .map(([state, id]) => ok(state, to('GET', id), { check: (t, body) => void t.is(body.id, id) })),
    ],
    'PATCH /v1/keys/key_:key': [
      ...wrongKeyCases('PATCH', cast, { body: {} }),
      ...bodyCases(callTo('PATCH', `/v1/keys/${ids.active}`), {}, bearer),
      ...settingCases((body) => callTo('PATCH', `/v1/keys/${ids.active}`)({ bearer, body }), {}),
      ok('nothing', to('PATCH', ids.active, {})),
      ok('what it has', to('PATCH', ids.active, { ...name, ...settings })),
      ok('an expired key', to('PATCH', ids.expired, name)),
      ok('a key in its grace', to('PATCH', ids.rotated, name)),
      conflict('the default key', to('PATCH', ids.byDefault, name), { says: 'no settings' }),
      conflict('a revoked key', to('PATCH', ids.revoked, name), { says: 'cannot change' }),
    ],
    'DELETE /v1/keys/key_:key': [
      ...wrongKeyCases('DELETE', cast),
      ok('an active key', to('DELETE', ids.toRevoke), { check: (t, body) => void t.is(body.state, 'revoked') }),
      ok('a revoked key', to('DELETE', ids.revoked), { check: (t, body) => void t.is(body.state, 'revoked') }),
      ok('a revoked key and its requests', to('DELETE', ids.revoked, undefined, '?end_requests=true')),
      invalid('a query that is not true or false', to('DELETE', ids.revoked, undefined, '?end_requests=1'), {
        says: 'end_requests: ',
      }),
      invalid('an unknown parameter', to('DELETE', ids.revoked, undefined, '?x=1'), { says: 'x: is not known' }),
    ],
    'POST /v1/keys/key_:key/rotate': [
      ...wrongKeyCases('POST', cast, { suffix: '/rotate', body: {} }),
      ...bodyCases(callTo('POST', `/v1/keys/${ids.revoked}/rotate`), {}, bearer),
      ...[-1, 604_801, 1.5, '60', true].map((grace) =>
        invalid(`a grace of ${grace}`, to('POST', ids.active, { grace_seconds: grace }, '/rotate'), {
          says: 'grace_seconds: ',
        }),
      ),
      ok('an active key', to('POST', ids.toRotate, { grace_seconds: 604_800 }, '/rotate'), {
        check: (t, body) => void t.like(body, { state: 'active', replaces: { id: ids.toRotate, state: 'rotated' } }),
      }),
      conflict('a revoked key', to('POST', ids.revoked, {}, '/rotate'), { says: 'cannot change' }),
      conflict('a key in its grace', to('POST', ids.rotated, {}, '/rotate'), { says: 'cannot change' }),
      conflict('an expired key', to('POST', ids.expired, {}, '/rotate'), { says: 'has expired' }),
    ],
    'GET /v1/key': [
      ...keyCases(own, cast),
      ok('a further key', own({ bearer: cast.furtherKey }), { check: (t, body) => void t.is(body.id, ids.active) }),
      ok('a default key', own({ bearer: cast.key }), { check: (t, body) => void t.is(body.default, true) }),
    ],
  };
}
