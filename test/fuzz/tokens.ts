import fc from 'fast-check';
import { createLocalJWKSet } from 'jose';
import { createSignIn } from '../../ingress/authentication/sign-in.ts';
import { usualTokenRules } from '../support/token-rules.ts';
import { declaredError } from './declared-error.ts';
import { publishedKeys, type Signer, signers, signText } from './fuzz-keys.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const [issuer, audience] = ['https://auth.fuzz.example', 'https://api.fuzz.example'];
const keys = createLocalJWKSet(publishedKeys);
const signIn = createSignIn({
  ...{ ...usualTokenRules, issuer, audiences: [audience], tokenLifeMaxS: Number.MAX_SAFE_INTEGER },
  log: { info() {} },
  issuerKeys: {
    consult: (attempt) => attempt(keys),
    async check() {},
    ageMs: () => 0,
    endpointOrigins: () => [],
    [Symbol.dispose]() {},
  },
});

const year2100 = 4_102_444_800;
const header = { alg: 'ES256', typ: 'at+jwt', kid: 'fuzz-1' };
const claims = { iss: issuer, aud: audience, sub: 'alice', exp: year2100 };

/** The part of a token that the issuer signed for this service. The same text is in a seed, with its signature. */
const genuine = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');

const headers = fc.record(
  {
    alg: fc.constantFrom('ES256', 'HS256', 'none', 'None', 'RS256', 'EdDSA', 'PS256', 'ES384', ''),
    kid: fc.constantFrom('fuzz-1', '', '__proto__', '../../dev/null', 'fuzz-2'),
    typ: fc.constantFrom('at+jwt', 'JWT', 'application/at+jwt', 'logout+jwt', ''),
    crit: fc.constantFrom(['b64'], ['x'], []),
    b64: fc.boolean(),
    jwk: fc.constant(publishedKeys.keys[0]),
    jku: fc.constant('https://evil.example/keys'),
  },
  { requiredKeys: ['alg'] },
);
const otherClaims = fc.record(
  {
    iss: fc.constantFrom(issuer, `${issuer}/`, '', [issuer], null),
    aud: fc.constantFrom(audience, [audience], ['x', audience], [], '', `${audience}/`, null, { 0: audience }),
    sub: fc.constantFrom('alice', '', 'x'.repeat(256), '\ud800', null, 5, ['alice']),
    exp: fc.constantFrom(year2100, 1, '4102444800', null, Number.MAX_VALUE, -1),
    nbf: fc.constantFrom(1, year2100, '1', null),
    iat: fc.constantFrom(1, year2100, '1', null),
    nonce: fc.constantFrom('n', null, ''),
    cnf: fc.constantFrom({ jkt: 'x' }, null),
    scope: fc.constantFrom('svc:admin', ['svc:admin'], '', null),
    scp: fc.constantFrom('a svc:admin', ['svc:admin'], [], null),
    token_use: fc.constantFrom('id', 'access', null),
  },
  { requiredKeys: ['iss', 'aud', 'sub', 'exp'] },
);
const signedTexts = fc
  .tuple(fc.constantFrom(...signers), headers, otherClaims)
  .map(([by, header, claims]) => Buffer.from(`${by}\n${JSON.stringify(header)}\n${JSON.stringify(claims)}`));

/** A token, or three lines: a signer, a header and claims, from which a token is signed first. */
export const tokens: FuzzTarget = {
  promise:
    'a token is accepted only if the issuer signed these exact claims for this service, anything else is INVALID_TOKEN',
  words: [
    ...[
      '"alg":"none"',
      '"alg":"HS256"',
      '"ES256"',
      '"kid":"fuzz-1"',
      '"kid":null',
      '"crit":["b64"],"b64":false',
      '"typ":"JWT"',
    ],
    ...['"sub":"bob"', '"sub":""', '"iss":', '"aud":[]', `"${audience}"`, '"exp":1', '"exp":1e400', '"nbf":4102444800'],
    ...[
      '"nonce":"n"',
      '"at_hash":"h"',
      '"cnf":{}',
      '"scope":"svc:admin"',
      '{}',
      '[]',
      'null',
      ',',
      '"__proto__":',
      '\\ud800',
    ],
    ...[
      '.',
      '..',
      '=',
      '-',
      '_',
      '+',
      '/',
      'A',
      'eyJ',
      'e30',
      '\n',
      'issuer\n',
      'stranger\n',
      'public\n',
      'eyJhbGciOiJub25lIn0',
    ],
  ],
  structured: signedTexts,
  async check(input) {
    const asked = signingAsked(input);
    const token = asked === undefined ? input.toString('latin1') : signText(asked.by, asked.header, asked.claims);
    try {
      const { account, isOperator } = await signIn.identify(token);
      if (asked === undefined)
        require(token.startsWith(`${genuine}.`), 'a token that the issuer did not sign is accepted');
      else checkAccepted(asked, account, isOperator);
      return asked === undefined ? 'accepted' : 'accepted as signed';
    } catch (error) {
      return declaredError(error, ['INVALID_TOKEN']);
    }
  },
};

type Asked = { by: Signer; header: Buffer; claims: Buffer };

function signingAsked(input: Buffer): Asked | undefined {
  const by = signers.find((name) => input.toString('latin1', 0, name.length + 1) === `${name}\n`);
  if (by === undefined) return undefined;
  const rest = input.subarray(by.length + 1);
  const end = rest.indexOf(10);
  return end < 0 ? undefined : { by, header: rest.subarray(0, end), claims: rest.subarray(end + 1) };
}

/** Checks all claims again, from the signed bytes. */
function checkAccepted({ by, ...signed }: Asked, account: string, isOperator: boolean): void {
  require(by === 'issuer', `a token signed by ${by} is accepted`);
  const [header, claims] = [signed.header, signed.claims].map((bytes) => JSON.parse(bytes.toString()));
  require(header.alg === 'ES256' && [undefined, 'fuzz-1'].includes(header.kid), 'it is signed by another key');
  require(header.crit === undefined, 'it has an unknown critical extension');
  require(header.typ === undefined || /^(application\/)?(at\+)?jwt$/i.test(header.typ), 'it is not an access token');
  require(claims.iss === issuer, 'it is from another issuer');
  require([claims.aud].flat().includes(audience), 'it is for another audience');
  const now = Date.now() / 1_000;
  require(typeof claims.exp === 'number' && claims.exp > now - 60, 'it has expired');
  require(claims.nbf === undefined || (typeof claims.nbf === 'number' && claims.nbf < now + 60), 'it is not yet valid');
  for (const name of ['at_hash', 'c_hash', 'cnf']) require(claims[name] === undefined, `it has ${name}`);
  require(claims.token_use !== 'id' && !/^id$/i.test(claims.typ), 'it is an ID token');
  const scopes = [claims.scope, claims.scp].filter((scope) => typeof scope === 'string' || Array.isArray(scope));
  const isMarked = scopes.length > 0 || claims.token_use === 'access' || claims.typ === 'Bearer';
  require(claims.nonce === undefined || isMarked || /at\+jwt$/i.test(header.typ), 'it may be an ID token');
  const isName = typeof claims.sub === 'string' && claims.sub !== '' && claims.sub.isWellFormed();
  require(isName && account === `user:${claims.sub}`, 'it is for another account');
  const isGranted = scopes.some((scope) =>
    (typeof scope === 'string' ? scope.split(' ') : scope).includes('svc:admin'),
  );
  require(isOperator === isGranted, 'it is wrong about operators');
}
