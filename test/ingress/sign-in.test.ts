import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { type JWTPayload, SignJWT } from 'jose';
import { createSignIn, type SignIn } from '../../ingress/sign-in.ts';
import { ApiError } from '../../shared/errors.ts';
import { type IdentityProvider, startIdentityProvider } from '../stack/identity-provider.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { type SignToken, signerOf, strangerWith } from '../support/sign-tokens.ts';

const audience = 'https://api.example.com';
const { log } = recordedLog();
const dataDirectory = await mkdtemp(join(tmpdir(), 'sign-in-'));
let provider: IdentityProvider;
let signIn: SignIn;
let sign: SignToken;

test.before(async () => {
  provider = await startIdentityProvider({ audience, dataDirectory });
  signIn = createSignIn({ issuer: provider.issuer, audience, log });
  sign = await signerOf(dataDirectory);
});

test.after.always(async () => {
  await provider?.[Symbol.asyncDispose]();
  await rm(dataDirectory, { recursive: true, force: true });
});

const seconds = () => Math.floor(Date.now() / 1_000);
const claims = (wishes: JWTPayload = {}): JWTPayload => ({
  iss: provider.issuer,
  aud: audience,
  sub: 'alice',
  iat: seconds(),
  exp: seconds() + 600,
  ...wishes,
});

async function outcomeOf(token: string): Promise<string> {
  return signIn.identify(token).then(
    ({ account }) => account,
    (error: unknown) => (error instanceof ApiError ? error.code : String(error)),
  );
}

test('a token of the issuer for this service gives its account', async (t) => {
  t.is(await outcomeOf(await provider.token('alice')), 'user:alice');
  t.is(await outcomeOf(await sign(claims())), 'user:alice');
  t.is(await outcomeOf(await sign(claims({ aud: ['https://other.example', audience] }))), 'user:alice');
  const accounts = await Promise.all(['bob', '名前', 'a b/c', 'auth0|123'].map((name) => provider.token(name)));
  t.deepEqual(await Promise.all(accounts.map(outcomeOf)), ['user:bob', 'user:名前', 'user:a b/c', 'user:auth0|123']);
});

test('what the issuer lets somebody do is in the scopes', async (t) => {
  t.deepEqual((await signIn.identify(await provider.token('alice'))).scopes, []);
  t.deepEqual((await signIn.identify(await provider.token('alice', { admin: true }))).scopes, ['svc:admin']);
  t.deepEqual((await signIn.identify(await sign(claims({ scope: 'a  svc:admin' })))).scopes, ['a', 'svc:admin']);
  t.is(await outcomeOf(await sign(claims({ scope: ['svc:admin'] }))), 'INVALID_TOKEN');
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

test('a forged signature under a key id that is known is INVALID_TOKEN', async (t) => {
  const good = await sign(claims());
  const { kid } = JSON.parse(Buffer.from(good.split('.')[0] ?? '', 'base64url').toString()) as { kid: string };
  const forger = await strangerWith(kid);
  t.is(await outcomeOf(await forger(claims())), 'INVALID_TOKEN');
  const [header, payload, signature] = good.split('.');
  const other = Buffer.from(JSON.stringify(claims({ sub: 'bob' }))).toString('base64url');
  t.is(await outcomeOf([header, other, signature].join('.')), 'INVALID_TOKEN');
  t.is(await outcomeOf([header, payload, ''].join('.')), 'INVALID_TOKEN');
});

test('what is not signed, or signed with what is public, is INVALID_TOKEN', async (t) => {
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

test('time counts, with half a minute of tolerance', async (t) => {
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
  t.is(await outcomeOf(await sign(claims({ sub: 5 as never }))), 'INVALID_TOKEN');
  const { sub: _sub, ...nameless } = claims();
  t.is(await outcomeOf(await sign(nameless)), 'INVALID_TOKEN');
});

test('what tells a client who signed in is no token for the service', async (t) => {
  const idToken = claims({ aud: 'console', nonce: 'n', auth_time: seconds() });
  t.is(await outcomeOf(await sign(idToken, { typ: 'JWT' })), 'INVALID_TOKEN');
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
    `${encode('{"alg":"ES256"}')}.${encode('[]')}.AAAA`,
    `${encode('{"alg":"ES256","crit":["x"],"x":1}')}.${encode('{}')}.AAAA`,
    'x'.repeat(15_000),
  ]) {
    t.is(await outcomeOf(garbage), 'INVALID_TOKEN', garbage.slice(0, 60));
  }
});

test('what was wrong is kept for the log and not told', async (t) => {
  const token = await sign(claims({ aud: 'elsewhere' }));
  const error = await t.throwsAsync(signIn.identify(token), { instanceOf: ApiError });
  t.regex(String(error?.cause), /aud/);
  t.false(error?.message.includes('aud'));
});

test('its check says whether the issuer answers', async (t) => {
  await t.notThrowsAsync(signIn.check());
  const nowhere = createSignIn({ issuer: 'http://127.0.0.1:1', audience, log });
  await t.throwsAsync(nowhere.check());
});
