import { createPublicKey } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { decodeProtectedHeader, EncryptJWT, exportJWK, importJWK, type JWTPayload, SignJWT } from 'jose';
import { startIdentityProvider } from '../stack/identity-provider.ts';
import { loadIdentitySecrets } from '../stack/identity-secrets.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { exchange, type RawAnswer } from '../support/raw-http.ts';
import { assertRefused, head, headTooLarge, invalidToken, refuses, stillServes } from '../support/refusal.ts';
import { type SignToken, signerOf, strangerWith } from '../support/sign-tokens.ts';

let stack: Stack;
let port: number;
let sign: SignToken;
let keyId: string;

test.before(async () => {
  stack = await startStack({ env: { LOG_LEVEL: 'debug' } }); // the level at which a refused request is logged
  port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  sign = await signerOf(join(stack.directory, 'identity'));
  keyId = decodeProtectedHeader(await sign(claims())).kid ?? '';
  await stack.mintKey('first'); // the issuer's keys are known from here on
});

test.after.always(async () => {
  await stack?.[Symbol.asyncDispose]();
});

const seconds = () => Math.floor(Date.now() / 1_000);

function claims(wishes: JWTPayload = {}): JWTPayload {
  const { issuer } = stack.identity;
  return { iss: issuer, aud: stack.baseUrl, sub: 'alice', iat: seconds(), exp: seconds() + 600, ...wishes };
}

const mint = (token: string) =>
  `${head(
    'POST /v1/keys/developer HTTP/1.1',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
    'Content-Length: 2',
  )}{}`;

/** Retries while the response is 503, which an unknown key id may get on a busy machine before the issuer was asked in time. */
async function verdictOn(token: string): Promise<RawAnswer> {
  for (;;) {
    const answer = await exchange({ port, send: mint(token) });
    if (answer.status !== 503) return answer;
    await sleep(20);
  }
}

/** Checks that each of these tokens gets 401 `INVALID_TOKEN` and has no other effect on the service. */
async function refusesTokens(t: ExecutionContext, cases: readonly (readonly [title: string, token: string])[]) {
  const refusing = cases.map(async ([title, token]) =>
    assertRefused(t, await verdictOn(token), { ...invalidToken, title }),
  );
  await Promise.all(refusing);
  await stillServes(t, stack.ingresses[0], await stack.mintKey(t.title));
}

test('a token of the issuer for this service signs in, regardless of its other claims', async (t) => {
  const tokens = [
    await stack.identity.token('alice'),
    await sign(claims()),
    await sign(claims(), { typ: 'JWT' }),
    await sign(claims(), { kid: undefined }),
    await sign(claims({ groups: 'x'.repeat(6_000) })),
  ];
  for (const token of tokens) t.is((await exchange({ port, send: mint(token) })).status, 200);
});

faultTest(
  test,
  {
    id: '22f',
    done: 'sign-in tokens that the issuer did not sign: forged, alg none, HS256 with the public key',
    promised: '401 INVALID_TOKEN, and the service keeps working',
  },
  async (t, see) => {
    const { signingKey } = await loadIdentitySecrets(join(stack.directory, 'identity'));
    const { d: _private, ...publicKey } = signingKey;
    const pem = createPublicKey({ key: publicKey, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const unsigned = (alg: string) => `${encode({ alg, typ: 'at+jwt', kid: keyId })}.${encode(claims())}.`;
    const withSecret = (secret: string) =>
      new SignJWT(claims())
        .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid: keyId })
        .sign(new TextEncoder().encode(secret));
    const forger = await strangerWith(keyId);
    const good = await sign(claims());
    const encrypted = new EncryptJWT(claims())
      .setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM', kid: keyId })
      .encrypt(await importJWK(await exportJWK(createPublicKey({ key: publicKey, format: 'jwk' })), 'ECDH-ES'));
    await refusesTokens(t, [
      ['none', unsigned('none')],
      ['None', unsigned('None')],
      ['none with a signature', `${unsigned('none')}${good.split('.')[2]}`],
      ['its algorithm without a signature', unsigned('ES256')],
      ['the public key as a secret: JWK', await withSecret(JSON.stringify(publicKey))],
      ['the public key as a secret: PEM', await withSecret(String(pem))],
      ['another key under the same id', await forger(claims())],
      ['another key that it contains', await forger(claims(), { jwk: await exportJWK(createPublicKey(pem)) })],
      ['a signature over other claims', good.replace(/\.[^.]+\./, `.${encode(claims({ sub: 'bob' }))}.`)],
      ['an algorithm of another key type', good.replace(/^[^.]+/, encode({ alg: 'RS256', kid: keyId }))],
      ['a critical extension', good.replace(/^[^.]+/, encode({ alg: 'ES256', kid: keyId, crit: ['x'], x: 1 }))],
      ['a JWE', await encrypted],
      ['five parts', `${good}.a.b`],
      ['two parts', good.split('.').slice(0, 2).join('.')],
      ['not a token', 'token'],
    ]);
    see('each of them got 401 INVALID_TOKEN');
  },
);

faultTest(
  test,
  {
    id: '22g',
    done: 'sign-in tokens of the issuer for another audience or purpose, expired, or not yet valid',
    promised: '401 INVALID_TOKEN, and the service keeps working',
  },
  async (t, see) => {
    const { sub: _sub, ...nameless } = claims();
    const { exp: _exp, ...endless } = claims();
    await using other = await startIdentityProvider({ audience: stack.baseUrl });
    await refusesTokens(t, [
      ['of another issuer', await other.token('alice')],
      ['that names another issuer', await sign(claims({ iss: 'https://other.example' }))],
      ['for another audience', await stack.identity.token('alice', { audience: 'https://other.example' })],
      ['with an empty audience', await sign(claims({ aud: [] }))],
      ['an ID token', await sign(claims({ aud: 'console', nonce: 'n', at_hash: 'h' }), { typ: 'JWT' })],
      ['an ID token with the service as its audience', await sign(claims({ nonce: 'n' }), { typ: 'JWT' })],
      ['an ID token by its hash', await sign(claims({ at_hash: 'h' }), { typ: undefined })],
      ['a token of another type', await sign(claims(), { typ: 'logout+jwt' })],
      ['expired', await stack.identity.token('alice', { expiresIn: -60 })],
      ['without an expiration', await sign(endless)],
      ['not yet valid', await sign(claims({ nbf: seconds() + 120 }))],
      ['without a subject', await sign(nameless)],
      ['with an empty subject', await sign(claims({ sub: '' }))],
    ]);
    see('each of them got 401 INVALID_TOKEN');
  },
);

faultTest(
  test,
  {
    id: '22h',
    done: 'sign-in tokens whose key id the issuer does not know',
    promised: '401 INVALID_TOKEN, and the service keeps working',
  },
  async (t, see) => {
    const keyIds = [
      'unknown',
      '',
      '../../dev/null',
      '/dev/null',
      'file:///dev/null',
      'http://169.254.169.254/',
      "' OR '1'='1",
      "x'; DROP TABLE accounts; --",
      '__proto__',
      'constructor',
      'hasOwnProperty',
      '\0',
      `${keyId}\0`,
      keyId.toUpperCase(),
      'k'.repeat(1_000),
    ];
    const cases = keyIds.map(async (kid) => [kid.slice(0, 40), await (await strangerWith(kid))(claims())] as const);
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const good = await sign(claims());
    const odd = [5, null, [keyId], { kid: keyId }].map(
      (kid) => [JSON.stringify(kid), good.replace(/^[^.]+/, encode({ alg: 'ES256', kid }))] as const,
    );
    await refusesTokens(t, [...(await Promise.all(cases)), ...odd]);
    see('each of them got 401 INVALID_TOKEN');
  },
);

test('a long token is refused as a token, and one beyond the header limit as a header', async (t) => {
  const good = await sign(claims());
  const forger = await strangerWith(keyId);
  await refusesTokens(t, [
    ['8 kB of filler', 'x'.repeat(8_192)],
    ['8 kB of key id', await (await strangerWith('k'.repeat(5_000)))(claims())],
    ['8 kB of claims', await forger(claims({ padding: 'x'.repeat(5_800) }))],
    ['8 kB of signature', `${good}${'A'.repeat(8_192)}`],
    ['8 kB of dots', '.'.repeat(8_192)],
  ]);
  await refuses(t, port, [
    ['100 kB of filler', mint('x'.repeat(100_000)), headTooLarge],
    ['100 kB of claims', mint(await sign(claims({ padding: 'x'.repeat(75_000) }))), headTooLarge],
  ]);
});

test('log lines contain no token or claim values, only the name of the wrong claim', async (t) => {
  const [ingress] = stack.ingresses;
  const secret = 'rhododendron';
  for (const [wishes, fault] of [
    [{ aud: secret }, /aud/],
    [{ at_hash: secret }, /at_hash/],
    [{ exp: 1 }, /exp/],
  ] as const) {
    const token = await sign(claims({ sub: secret, ...wishes }));
    const answer = await verdictOn(token);
    assertRefused(t, answer, { ...invalidToken, title: JSON.stringify(wishes) });
    const requestId = answer.headers['x-request-id'];
    const line = await ingress?.process.line((entry) => entry.requestId === requestId && 'code' in entry);
    t.regex(JSON.stringify(line), fault);
    const logs = JSON.stringify(ingress?.process.logs);
    t.false(logs.includes(secret));
    for (const part of token.split('.')) t.false(logs.includes(part));
  }
});
