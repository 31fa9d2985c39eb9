import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import {
  createLocalJWKSet,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  type JWTHeaderParameters,
  type JWTPayload,
  SignJWT,
} from 'jose';
import { createIssuerKeys, type IssuerKeys, type KeySet } from '../../../ingress/authentication/issuer-keys.ts';
import { createSignIn, type SignIn } from '../../../ingress/authentication/sign-in.ts';
import { ApiError } from '../../../shared/errors.ts';
import { type IdentityProvider, startIdentityProvider } from '../../stack/identity-provider.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { type SignToken, signerOf, strangerWith } from '../../support/sign-tokens.ts';
import { usualTokenRules } from '../../support/token-rules.ts';

const audience = 'https://api.example.com';
const rules = { ...usualTokenRules, audiences: [audience], log: recordedLog().log };
const dataDirectory = await mkdtemp(join(tmpdir(), 'sign-in-'));
let provider: IdentityProvider;
let issuerKeys: IssuerKeys;
let signIn: SignIn;
let sign: SignToken;

test.before(async () => {
  provider = await startIdentityProvider({ audience, dataDirectory });
  issuerKeys = createIssuerKeys({ issuer: provider.issuer, log: recordedLog().log });
  signIn = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys });
  sign = await signerOf(dataDirectory);
  await signIn.check(); // so that no test waits for the first fetch on a slow machine
});

test.after.always(async () => {
  issuerKeys?.[Symbol.dispose]();
  await provider?.[Symbol.asyncDispose]();
  await rm(dataDirectory, { recursive: true, force: true });
});

const seconds = () => Math.floor(Date.now() / 1_000);
/** A claim that is `undefined` is omitted. */
const claims = (wishes: Readonly<Record<string, unknown>> = {}): JWTPayload => ({
  iss: provider.issuer,
  aud: audience,
  sub: 'alice',
  iat: seconds(),
  exp: seconds() + 600,
  ...wishes,
});

/** The account or the error code. Retries like a client if the issuer was too slow on a busy machine. */
async function outcomeOf(token: string, by = signIn): Promise<string> {
  for (;;) {
    const outcome = await by.identify(token).then(
      ({ account }) => account,
      (error: unknown) => (error instanceof ApiError ? error.code : String(error)),
    );
    if (outcome !== 'SERVICE_UNAVAILABLE') return outcome;
  }
}

test('a token of the issuer for this service identifies its account', async (t) => {
  t.is(await outcomeOf(await provider.token('alice')), 'user:alice');
  t.is(await outcomeOf(await sign(claims())), 'user:alice');
  t.is(await outcomeOf(await sign(claims({ aud: ['https://other.example', audience] }))), 'user:alice');
  const accounts = await Promise.all(['bob', '名前', 'a b/c', 'auth0|123'].map((name) => provider.token(name)));
  const outcomes = await Promise.all(accounts.map((token) => outcomeOf(token)));
  t.deepEqual(outcomes, ['user:bob', 'user:名前', 'user:a b/c', 'user:auth0|123']);
});

test('an operator is who has the scope for it, as words or as a list', async (t) => {
  const isOperator = async (token: string) => (await signIn.identify(token)).isOperator;
  t.false(await isOperator(await provider.token('alice')));
  t.true(await isOperator(await provider.token('alice', { admin: true })));
  for (const scope of ['a  svc:admin', ['svc:admin'], ['a', 'svc:admin']]) {
    t.true(await isOperator(await sign(claims({ scope }))), JSON.stringify(scope));
    t.true(await isOperator(await sign(claims({ scp: scope }))), JSON.stringify(scope));
  }
  for (const scope of ['svc:administrator', ['a svc:admin'], { svc: 'admin' }, null, 7, undefined]) {
    t.false(await isOperator(await sign(claims({ scope }))), JSON.stringify(scope));
  }
});

test('a token for another service, or from another issuer, is INVALID_TOKEN', async (t) => {
  t.is(await outcomeOf(await provider.token('alice', { audience: 'https://other.example' })), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ aud: `${audience}/` }))), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ iss: `${provider.issuer}/` }))), 'INVALID_TOKEN');
  await using other = await startIdentityProvider({ audience });
  t.is(await outcomeOf(await other.token('alice')), 'INVALID_TOKEN');
  const stranger = await strangerWith('unknown');
  t.is(await outcomeOf(await stranger(claims())), 'INVALID_TOKEN');
});

test('a forged signature under a known key id is INVALID_TOKEN', async (t) => {
  const good = await sign(claims());
  const forger = await strangerWith(decodeProtectedHeader(good).kid ?? '');
  t.is(await outcomeOf(await forger(claims())), 'INVALID_TOKEN');
  const [header, payload, signature] = good.split('.');
  const other = Buffer.from(JSON.stringify(claims({ sub: 'bob' }))).toString('base64url');
  t.is(await outcomeOf([header, other, signature].join('.')), 'INVALID_TOKEN');
  t.is(await outcomeOf([header, payload, ''].join('.')), 'INVALID_TOKEN');
});

test('a token that is unsigned, or signed with public data, is INVALID_TOKEN', async (t) => {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  t.is(await outcomeOf(`${encode({ alg: 'none', typ: 'at+jwt' })}.${encode(claims())}.`), 'INVALID_TOKEN');
  t.is(await outcomeOf(`${encode({ alg: 'None' })}.${encode(claims())}.`), 'INVALID_TOKEN');
  const keys = await (await fetch(`${provider.issuer}/jwks`)).text();
  const { kid } = (JSON.parse(keys) as { keys: { kid: string }[] }).keys[0] ?? {};
  for (const secret of [keys, 'secret'.repeat(10)]) {
    const token = await new SignJWT(claims())
      .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid: kid ?? '' })
      .sign(new TextEncoder().encode(secret));
    t.is(await outcomeOf(token), 'INVALID_TOKEN');
  }
});

test('times are checked with half a minute of tolerance', async (t) => {
  t.is(await outcomeOf(await provider.token('alice', { expiresIn: -60 })), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ exp: seconds() - 10 }))), 'user:alice');
  t.is(await outcomeOf(await sign(claims({ nbf: seconds() + 60 }))), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ nbf: seconds() + 10 }))), 'user:alice');
  const { exp: _exp, ...lasting } = claims();
  t.is(await outcomeOf(await sign(lasting)), 'INVALID_TOKEN');
});

test('an account has a name of 1 to 255 characters', async (t) => {
  t.is(await outcomeOf(await sign(claims({ sub: 's'.repeat(255) }))), `user:${'s'.repeat(255)}`);
  t.is(await outcomeOf(await sign(claims({ sub: 's'.repeat(256) }))), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ sub: '' }))), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ sub: 'a lone surrogate: \ud800' }))), 'INVALID_TOKEN');
  t.is(await outcomeOf(await sign(claims({ sub: 5 }))), 'INVALID_TOKEN');
  const { sub: _sub, ...nameless } = claims();
  t.is(await outcomeOf(await sign(nameless)), 'INVALID_TOKEN');
});

test('an ID token is not accepted, even if client and service have the same name', async (t) => {
  t.is(await outcomeOf(await sign(claims({ aud: 'console' }), { typ: 'JWT' })), 'INVALID_TOKEN');
  const idTokens = [{ at_hash: 'h' }, { c_hash: 'h' }, { at_hash: null }, { token_use: 'id' }, { typ: 'ID' }];
  for (const wishes of [...idTokens, { at_hash: 'h', scope: 'a' }, { token_use: 'id', scope: 'a' }]) {
    for (const typ of ['JWT', 'at+jwt', undefined]) {
      t.is(await outcomeOf(await sign(claims(wishes), { typ })), 'INVALID_TOKEN', JSON.stringify([wishes, typ]));
    }
  }
});

test('a token of another kind is not accepted: a refresh token, a logout token, or one of a kind that is not known', async (t) => {
  const kinds = ['ID', 'id', 'Refresh', 'Offline', 'Logout', 'JWT', '', null, 7, ['Bearer']];
  const events = [{ 'http://schemas.openid.net/event/backchannel-logout': {} }, {}, null];
  const others = [
    ...kinds.map((typ) => ({ typ })),
    ...[...kinds, 'Bearer'].map((token_use) => ({ token_use })),
    ...events.map((of) => ({ events: of })),
  ];
  const accepting = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys, acceptsUnmarked: true });
  for (const wishes of others) {
    for (const by of [signIn, accepting]) {
      const token = await sign(claims({ ...wishes, scope: 'a' } as JWTPayload)); // some are of wrong types
      t.is(await outcomeOf(token, by), 'INVALID_TOKEN', JSON.stringify(wishes));
    }
  }
  for (const wishes of [{ typ: 'bearer' }, { typ: 'BEARER' }, { token_use: 'Access' }]) {
    t.is(await outcomeOf(await sign(claims({ nonce: 'n', ...wishes }), { typ: 'JWT' })), 'user:alice');
  }
});

test('a token that is for this service only as the console needs a mark of an access token', async (t) => {
  const by = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys, audiences: ['console', 'api'] });
  const accepting = createSignIn({
    ...rules,
    issuer: provider.issuer,
    issuerKeys,
    audiences: ['console'],
    acceptsUnmarked: true,
  });
  for (const aud of ['console', ['console'], ['other', 'console']]) {
    const idToken = claims({ aud, scope: undefined });
    t.is(await outcomeOf(await sign(idToken, { typ: 'JWT' }), by), 'INVALID_TOKEN', JSON.stringify(aud));
    t.is(await outcomeOf(await sign(idToken, { typ: 'JWT' }), accepting), 'user:alice');
    t.is(await outcomeOf(await sign({ ...idToken, scp: 'a' }, { typ: 'JWT' }), by), 'user:alice');
    t.is(await outcomeOf(await sign(idToken, { typ: 'at+jwt' }), by), 'user:alice');
  }
  for (const aud of ['api', ['console', 'api']]) {
    t.is(await outcomeOf(await sign(claims({ aud, scope: undefined }), { typ: 'JWT' }), by), 'user:alice');
  }
});

test('a token with a nonce is accepted only with a mark of an access token', async (t) => {
  const nonced = (wishes: JWTPayload, typ?: string) => sign(claims({ nonce: 'n', ...wishes }), { typ });
  const marks = [{ scope: '' }, { scope: ['a'] }, { scp: 'a' }, { token_use: 'access' }, { typ: 'Bearer' }];
  for (const mark of marks) t.is(await outcomeOf(await nonced(mark, 'JWT')), 'user:alice', JSON.stringify(mark));
  for (const typ of ['at+jwt', 'application/at+jwt']) t.is(await outcomeOf(await nonced({}, typ)), 'user:alice', typ);
  for (const none of [{}, { nonce: null }, { scope: null }, { scp: 7 }, { token_use: 'other' }, { typ: 'JWT' }]) {
    t.is(await outcomeOf(await nonced(none, 'JWT')), 'INVALID_TOKEN', JSON.stringify(none));
    t.is(await outcomeOf(await nonced(none)), 'INVALID_TOKEN', JSON.stringify(none));
  }
});

test('for an issuer that marks neither kind, a setting lets tokens pass that may be ID tokens', async (t) => {
  const by = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys, acceptsUnmarked: true });
  for (const wishes of [{ nonce: 'n' }, { at_hash: 'h' }, { at_hash: 'h', nonce: 'n' }, {}]) {
    t.is(await outcomeOf(await sign(claims(wishes), { typ: 'JWT' }), by), 'user:alice', JSON.stringify(wishes));
  }
  for (const wishes of [{ token_use: 'id' }, { typ: 'ID' }, { c_hash: 'h' }, { cnf: {} }]) {
    t.is(await outcomeOf(await sign(claims(wishes), { typ: 'JWT' }), by), 'INVALID_TOKEN', JSON.stringify(wishes));
  }
});

test('a token may be for any of the audiences; without any, it must name none', async (t) => {
  const withAudiences = (audiences: readonly string[] | undefined) =>
    createSignIn({ ...rules, issuer: provider.issuer, issuerKeys, audiences });
  const several = withAudiences(['api://a', 'b']);
  for (const aud of ['api://a', 'b', ['x', 'b']])
    t.is(await outcomeOf(await sign(claims({ aud })), several), 'user:alice');
  for (const aud of ['api://A', audience, ['x'], [], undefined]) {
    t.is(await outcomeOf(await sign(claims({ aud })), several), 'INVALID_TOKEN', JSON.stringify(aud));
  }
  const none = withAudiences(undefined);
  t.is(await outcomeOf(await sign(claims({ aud: undefined })), none), 'user:alice');
  for (const aud of [audience, 'none', '', [], null]) {
    t.is(await outcomeOf(await sign(claims({ aud })), none), 'INVALID_TOKEN', JSON.stringify(aud));
  }
});

test('a token may have the type of an access token or none, and no other type', async (t) => {
  for (const typ of ['at+jwt', 'AT+JWT', 'application/at+jwt', 'JWT', 'jwt', undefined]) {
    t.is(await outcomeOf(await sign(claims(), { typ })), 'user:alice', typ);
  }
  for (const typ of ['id+jwt', 'logout+jwt', 'dpop+jwt', 'JWS', 'at+jwt ', 'xat+jwt', '', 5, null, ['JWT']]) {
    t.is(await outcomeOf(await sign(claims(), { typ })), 'INVALID_TOKEN', JSON.stringify(typ));
  }
});

test('a key in a token, or an address of a key, is ignored', async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'brought along' };
  let asked = 0;
  const server = createServer((_request, response) => {
    asked++;
    response.end(JSON.stringify({ keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  const { kid } = decodeProtectedHeader(await sign(claims()));
  const outcomes = await Promise.all(
    [
      { jwk },
      { jku: at },
      { x5u: at },
      { kid: at, jku: at },
      { kid: jwk.kid, jwk, jku: at },
      { kid, jwk, jku: at },
    ].map(async (header) => {
      const protectedHeader = { alg: 'ES256', typ: 'at+jwt', ...header } as JWTHeaderParameters; // a kid it may be
      return outcomeOf(await new SignJWT(claims()).setProtectedHeader(protectedHeader).sign(privateKey));
    }),
  );
  t.deepEqual(outcomes, Array(6).fill('INVALID_TOKEN'));
  t.is(asked, 0);
});

test('a key id is only compared with the ids of the keys', async (t) => {
  const keyIds = [
    '../../dev/null',
    'file:///dev/null',
    "' OR 1=1 --",
    '__proto__',
    'constructor',
    'toString',
    '',
    '\0',
  ];
  const outcomes = await Promise.all(
    keyIds.map(async (keyId) => outcomeOf(await (await strangerWith(keyId))(claims()))),
  );
  t.deepEqual(new Set(outcomes), new Set(['INVALID_TOKEN']));
});

/** Keys that change from the first set to the last while a token that fits none is checked. */
function keysInTurn(...sets: KeySet[]): IssuerKeys & { asked: () => number } {
  let asked = 0;
  return {
    async consult(attempt) {
      for (const set of sets) {
        asked++;
        const found = await attempt(set);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    asked: () => asked,
    check: async () => {},
    ageMs: () => 0,
    endpointOrigins: () => [],
    [Symbol.dispose]: () => {},
  };
}

test('a token without a key id is tried with every possible key, then with newly fetched ones', async (t) => {
  const make = async (kid: string, alg = 'ES256') => {
    const { publicKey, privateKey } = await generateKeyPair(alg);
    const signed = (wishes: JWTPayload = {}, header: { kid?: string } = {}) =>
      new SignJWT(claims(wishes)).setProtectedHeader({ alg, ...header }).sign(privateKey);
    return { signed, jwk: { ...(await exportJWK(publicKey)), kid } };
  };
  const [one, two, other, stranger] = await Promise.all([make('1'), make('2'), make('3', 'RS256'), make('1')]);
  const setOf = (...keys: (typeof one)[]) => createLocalJWKSet({ keys: keys.map(({ jwk }) => jwk) });
  const cases: [title: string, token: string, sets: KeySet[], outcome: string, asked: number][] = [
    ['the first of two', await one.signed(), [setOf(one, two, other)], 'user:alice', 1],
    ['the second of two', await two.signed(), [setOf(one, two, other)], 'user:alice', 1],
    ['the only key of its type', await other.signed(), [setOf(one, two, other)], 'user:alice', 1],
    ['none of them', await stranger.signed(), [setOf(one, two, other)], 'INVALID_TOKEN', 1],
    ['one, but expired', await two.signed({ exp: 1 }), [setOf(one, two), setOf(two)], 'INVALID_TOKEN', 1],
    ['the new key that replaced the only one', await two.signed(), [setOf(one), setOf(two)], 'user:alice', 2],
    ['the new key', await two.signed(), [setOf(one, stranger), setOf(one, two)], 'user:alice', 2],
    [
      'a wrong key under a known id',
      await stranger.signed({}, { kid: '1' }),
      [setOf(one), setOf(one)],
      'INVALID_TOKEN',
      1,
    ],
  ];
  for (const [title, token, sets, outcome, asked] of cases) {
    const issuerKeys = keysInTurn(...sets);
    const by = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys });
    t.is(await outcomeOf(token, by), outcome, title);
    t.is(issuerKeys.asked(), asked, title);
  }
});

test('an unusable key of the issuer is an error of the issuer', async (t) => {
  const broken = createLocalJWKSet({ keys: [{ kty: 'EC', crv: 'P-256', kid: 'broken', x: 'AAAA', y: 'AAAA' }] });
  const by = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys: keysInTurn(broken) });
  const token = await (await strangerWith('broken'))(claims());
  await t.throwsAsync(by.identify(token), { code: 'SERVICE_UNAVAILABLE' });
});

test('garbage is INVALID_TOKEN', async (t) => {
  const good = await sign(claims());
  const encode = (text: string) => Buffer.from(text).toString('base64url');
  for (const garbage of [
    'abc',
    'a.b.c',
    'a.b.c.d.e',
    good.slice(0, -10),
    `${good}.x`,
    `${encode('{')}.${encode('{}')}.x`,
    `${encode('null')}.${encode('null')}.x`,
    `${encode('{"alg":"ES256","kid":5}')}.${encode('{}')}.AAAA`,
    `${encode('{"alg":"ES256"}')}.${encode('[]')}.AAAA`,
    `${encode('{"alg":"ES256","crit":["x"],"x":1}')}.${encode('{}')}.AAAA`,
    `${encode('{"alg":"ES256","crit":["b64"],"b64":false}')}.{}.AAAA`,
    'x'.repeat(15_000),
  ]) {
    t.is(await outcomeOf(garbage), 'INVALID_TOKEN', garbage.slice(0, 60));
  }
});

test('the reason is logged once a minute, names the claim and the setting, and contains no data of the token', async (t) => {
  const { log, lines } = recordedLog();
  const by = createSignIn({ ...rules, issuer: provider.issuer, issuerKeys, clients: ['console'], log });
  const reasonOf = async (token: string) => {
    const before = lines.length;
    await outcomeOf(token, by);
    return lines.slice(before).map((line) => (line.fields as { reason: string }).reason);
  };
  t.deepEqual(await reasonOf(await sign(claims({ aud: 'elsewhere' }))), [
    'ERR_JWT_CLAIM_VALIDATION_FAILED: aud check_failed: AUTH_AUDIENCE',
  ]);
  t.deepEqual(await reasonOf(await sign(claims({ aud: 'elsewhere' }))), [], 'only once');
  for (const [wishes, reason] of [
    [{ client_id: 'elsewhere' }, /client_id .* is not in AUTH_CLIENTS/],
    [{ nonce: 'elsewhere', client_id: 'console' }, /nonce .*AUTH_UNMARKED_TOKENS/],
    [{ iss: 'elsewhere' }, /iss check_failed: AUTH_URL/],
    [{ exp: seconds() + 86_500, client_id: 'console' }, /exp .*AUTH_TOKEN_LIFE_MAX_S/],
  ] as const) {
    const reasons = await reasonOf(await sign(claims(wishes), { typ: 'JWT' }));
    t.regex(reasons.join(), reason);
  }
  t.regex((await reasonOf('ya29.opaque')).join(), /not a signed token/);
  t.notRegex(JSON.stringify(lines), /elsewhere|alice|ya29/);
});

test('the answer to a wrong token does not say what is wrong, and the reason contains no data of the token', async (t) => {
  for (const [wishes, header, cause] of [
    [{ aud: 'elsewhere' }, {}, /ERR_JWT_CLAIM_VALIDATION_FAILED: aud check_failed/],
    [{ exp: 1 }, {}, /ERR_JWT_EXPIRED: exp check_failed/],
    [{ cnf: { jkt: 'elsewhere' } }, {}, /not an access token: invalid cnf/],
    [{ exp: seconds() + 86_500 }, {}, /exp is too long/],
    [{ nonce: 'elsewhere' }, { typ: 'JWT' }, /nonce without scope/],
    [{}, { typ: 'elsewhere' }, /not an access token: invalid typ/],
    [{ scope: ['elsewhere'], sub: '' }, {}, /not an access token: invalid sub$/],
  ] as const) {
    const error = await t.throwsAsync(signIn.identify(await sign(claims(wishes), header)), {
      instanceOf: ApiError,
    });
    t.regex(String(error?.cause), cause);
    t.notRegex(`${error?.message} ${error?.cause}`, /elsewhere|alice/);
    t.notRegex(String(error?.message), /aud|exp|nonce|typ|scope/);
  }
});

test('its check fails if the issuer does not answer', async (t) => {
  await t.notThrowsAsync(signIn.check());
  using nowhere = createIssuerKeys({ issuer: 'http://127.0.0.1:1', log: recordedLog().log });
  await t.throwsAsync(createSignIn({ ...rules, issuer: 'http://127.0.0.1:1', issuerKeys: nowhere }).check());
});
