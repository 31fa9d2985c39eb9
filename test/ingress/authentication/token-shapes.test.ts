import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { createIssuerKeys } from '../../../ingress/authentication/issuer-keys.ts';
import { createSignIn } from '../../../ingress/authentication/sign-in.ts';
import { ApiError } from '../../../shared/errors.ts';
import { readIngressConfig } from '../../../shared/process/config.ts';
import { planText } from '../../support/plan-text.ts';
import { recordedLog } from '../../support/recorded-log.ts';

/*
 * Tokens of the shapes that providers are known to give, from an issuer of our own, by the settings that the page for operators lists.
 * `alice` is an account, `alice, operator` an operator, `refused` is 401.
 */

const base = 'https://api.example.com';
const now = Math.floor(Date.now() / 1_000);
const [operators, ops] = [['operators'], 'svc:admin'] as const;
const [guid, groups] = ['6e74172b-be56-4843-9ff4-e66a39bb12e3', { 'cognito:groups': operators }];
const authentik = { azp: 'console', uid: 'x', acr: 'goauthentik.io/providers/oauth2/default' };
const zitadelRoles = { 'urn:zitadel:iam:org:project:roles': { [ops]: { 1: 'x' } } };

type Shape = {
  claims: Readonly<Record<string, unknown>> | 'opaque';
  header?: Readonly<Record<string, unknown>>;
  byDefault: string;
};

const shapes: Readonly<Record<string, Shape>> = {
  'RFC 9068': {
    claims: { aud: base, scope: `openid ${ops}`, client_id: 'console' },
    header: { typ: 'at+jwt' },
    byDefault: 'alice, operator',
  },
  Keycloak: {
    claims: { aud: [base, 'account'], azp: 'console', typ: 'Bearer', scope: `openid ${ops}` },
    byDefault: 'alice, operator',
  },
  'Auth0, scope': {
    claims: {
      ...{ aud: [base, 'https://t.auth0.com/userinfo'], azp: 'abc', sub: 'auth0|1' },
      ...{ scope: `openid ${ops} offline_access`, permissions: [ops] },
    },
    byDefault: 'auth0|1, operator',
  },
  'Auth0, permissions': {
    claims: { aud: base, azp: 'abc', sub: 'auth0|1', scope: 'openid', permissions: [ops] },
    byDefault: 'auth0|1',
  },
  'Entra ID v2': {
    claims: { aud: guid, azp: 'guid', scp: 'svc.admin', roles: [ops], oid: 'o', tid: 't', ver: '2.0' },
    byDefault: 'refused',
  },
  'Entra ID v2, aud BASE_URL': {
    claims: { aud: base, azp: 'guid', scp: `${ops} access`, oid: 'o', tid: 't', ver: '2.0' },
    byDefault: 'alice, operator',
  },
  'Entra ID v2, app role': {
    claims: { aud: base, azp: 'guid', scp: 'access', roles: [ops], ver: '2.0' },
    byDefault: 'alice',
  },
  'Entra ID, ID token of the console': {
    claims: { aud: 'console', oid: 'o', tid: 't', ver: '2.0' },
    byDefault: 'refused',
  },
  'Entra ID v1': { claims: { aud: 'api://inference', appid: 'guid', scp: ops, ver: '1.0' }, byDefault: 'refused' },
  Okta: {
    claims: { aud: base, cid: '0oa1', uid: '00u1', scp: ['openid', ops, 'offline_access'], ver: 1 },
    header: { typ: undefined },
    byDefault: 'alice, operator',
  },
  Cognito: {
    claims: { client_id: 'abc', token_use: 'access', scope: `openid https://api/${ops}`, ...groups },
    header: { typ: undefined },
    byDefault: 'refused',
  },
  'Cognito with aud': {
    claims: { aud: base, client_id: 'abc', token_use: 'access', scope: `openid ${base}/${ops}`, ...groups },
    header: { typ: undefined },
    byDefault: 'alice',
  },
  'Ory Hydra': {
    claims: { aud: [base], client_id: 'console', ext: {}, scp: ['openid', ops], nbf: now },
    byDefault: 'alice, operator',
  },
  'authentik, no mapping': {
    claims: { ...authentik, aud: 'console', nonce: 'n', groups: operators },
    byDefault: 'refused',
  },
  'authentik, mapping': {
    claims: { ...authentik, aud: base, scope: `openid ${ops}` },
    byDefault: 'alice, operator',
  },
  'authentik, mapping and nonce': {
    claims: { ...authentik, aud: base, scope: `openid ${ops}`, nonce: 'n' },
    byDefault: 'alice, operator',
  },
  Zitadel: { claims: { aud: ['312@p', '313'], client_id: '312@p', ...zitadelRoles }, byDefault: 'refused' },
  Dex: { claims: { aud: 'console', at_hash: 'x', email: 'a@b', groups: operators }, byDefault: 'refused' },
  'Google ID token': {
    claims: { aud: 'x.apps.googleusercontent.com', azp: 'x', at_hash: 'h', email: 'a@b', nonce: 'n' },
    byDefault: 'refused',
  },
  'Google access token': { claims: 'opaque', byDefault: 'refused' },
  'aud with a slash at the end': { claims: { aud: `${base}/`, scope: ops }, byDefault: 'refused' },
  'scope as a list': { claims: { aud: base, scope: ['openid', ops] }, byDefault: 'alice, operator' },
  'times with fractions': {
    claims: { aud: base, exp: now + 3_600.5, iat: now - 0.5, scope: ops },
    byDefault: 'alice, operator',
  },
  'sub as a number': { claims: { aud: base, sub: 42, scope: ops }, byDefault: 'refused' },
  'sub of 300 characters': { claims: { aud: base, sub: 'x'.repeat(300) }, byDefault: 'refused' },
  'no iat': { claims: { aud: base, iat: undefined, exp: now + 8 * 3_600, scope: ops }, byDefault: 'alice, operator' },
  'typ Bearer in the header': { claims: { aud: base, scope: ops }, header: { typ: 'Bearer' }, byDefault: 'refused' },
  'nbf in 20 s': { claims: { aud: base, nbf: now + 20 }, byDefault: 'alice' },
  'nbf in 60 s': { claims: { aud: base, nbf: now + 60 }, byDefault: 'refused' },
  'crit b64': { claims: { aud: base }, header: { crit: ['b64'], b64: true }, byDefault: 'alice' },
};

/** The row of the table that has the settings for a shape, and what they give. */
const byProvider: readonly (readonly [provider: string, shape: string, outcome: string])[] = [
  ['Keycloak', 'Keycloak', 'alice, operator'],
  ['Auth0', 'Auth0, scope', 'auth0|1, operator'],
  ['Auth0', 'Auth0, permissions', 'auth0|1, operator'],
  ['Entra ID', 'Entra ID v2', 'o, operator'],
  ['Entra ID', 'Entra ID, ID token of the console', 'refused'],
  ['Entra ID, tokens of version 1', 'Entra ID v1', 'alice, operator'],
  ['Okta', 'Okta', 'alice, operator'],
  ['Cognito', 'Cognito', 'alice, operator'],
  ['Cognito', 'Cognito with aud', 'refused'],
  ['Cognito with resource binding', 'Cognito with aud', 'alice, operator'],
  ['Cognito with resource binding', 'Cognito', 'refused'],
  ['authentik', 'authentik, mapping', 'alice, operator'],
  ['authentik', 'authentik, mapping and nonce', 'alice, operator'],
  ['authentik', 'authentik, no mapping', 'refused'],
  ['authentik without a mapping', 'authentik, no mapping', 'alice, operator'],
  ['Zitadel', 'Zitadel', 'alice, operator'],
  ['Ory Hydra', 'Ory Hydra', 'alice, operator'],
  ['Dex', 'Dex', 'alice, operator'],
  ['Google', 'Google ID token', 'refused'],
  ['Google', 'Google access token', 'refused'],
];

/** What the console then requests, if it is not the default. */
const requests: Readonly<Record<string, { consoleScopes?: string; consoleResource?: string }>> = {
  Auth0: { consoleScopes: 'openid offline_access' },
  'Entra ID': { consoleScopes: `openid offline_access api://${guid}/access`, consoleResource: '' },
  'Entra ID, tokens of version 1': { consoleResource: 'api://inference' },
  Okta: { consoleScopes: `openid offline_access ${ops}` },
  Cognito: { consoleScopes: 'openid', consoleResource: '' },
  'Cognito with resource binding': { consoleScopes: 'openid' },
  authentik: { consoleScopes: `openid offline_access ${ops}` },
  'authentik without a mapping': { consoleScopes: 'openid profile offline_access', consoleResource: 'console' },
  Zitadel: { consoleScopes: 'openid offline_access', consoleResource: '313' },
  'Ory Hydra': { consoleScopes: `openid offline_access ${ops}` },
  Dex: { consoleScopes: 'openid groups offline_access', consoleResource: 'console' },
};

/** What stands for the values in angle brackets. */
const ofOurs: Readonly<Record<string, string>> = {
  'api-client-id': guid,
  name: 'inference',
  group: 'operators',
  scope: 'access',
  'project-id': '313',
};
const clientIds: Readonly<Record<string, string>> = { Cognito: 'abc' };

/** The settings of each provider in the page for operators. */
function documentedSettings(): Map<string, Record<string, string>> {
  const page = readFileSync(new URL('../../../ingress/documentation/sign-in.md', import.meta.url), 'utf8');
  const [, section = ''] = page.split('\n## Providers\n');
  const rows = section.split('\n## ')[0]?.matchAll(/^\| ([^|]+) \| ([^|]*) \|[^|]+\|$/gm) ?? [];
  return new Map(
    [...rows].slice(1).map(([, provider = '', cell = '']) => {
      const settings = [...cell.matchAll(/`((?:AUTH|CONSOLE)_\w+)=([^`]*)`/g)].map(([, name = '', text = '']) => {
        const value = text.replace(/<([\w-]+)>/g, (_, of: string) => {
          return (of === 'client-id' ? (clientIds[provider] ?? 'console') : ofOurs[of]) ?? of;
        });
        return [name, value];
      });
      return [provider, Object.fromEntries(settings)];
    }),
  );
}

const directory = mkdtempSync(join(tmpdir(), 'token-shapes-'));
const planFile = join(directory, 'plans.yaml');
const parts = new AsyncDisposableStack();
let issuer = '';
let configWith: (settings?: Record<string, string>) => ReturnType<typeof readIngressConfig>['signIn'];
let outcomeOf: (shape: string, settings?: Record<string, string>) => Promise<string>;

test.before(async () => {
  writeFileSync(planFile, planText());
  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'k1', use: 'sig', alg: 'RS256' };
  const server = createServer((request, response) => {
    const isDiscovery = request.url?.startsWith('/.well-known/') ?? false;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(isDiscovery ? { issuer, jwks_uri: `${issuer}/keys` } : { keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  parts.defer(() => void server.close());
  await once(server, 'listening');
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  const issuerKeys = parts.use(createIssuerKeys({ issuer, log: recordedLog().log }));

  async function tokenOf({ claims, header }: Shape): Promise<string> {
    if (claims === 'opaque') return 'ya29.a0AfH6SMBexample';
    // On a slow machine a time that is in the future here could have come by now.
    const sinceThen = Math.floor(Date.now() / 1_000) - now;
    const nbf = typeof claims.nbf === 'number' ? { nbf: claims.nbf + sinceThen } : {};
    const all = { iss: issuer, iat: now, exp: now + 3_600, sub: 'alice', ...claims, ...nbf };
    return new SignJWT(all as JWTPayload) // some have claims of wrong types
      .setProtectedHeader({ alg: 'RS256', kid: 'k1', typ: 'JWT', ...header })
      .sign(privateKey);
  }

  configWith = (settings = {}) => {
    const secret = 's'.repeat(32);
    const env = {
      ...{ REDIS_URL: 'redis://redis', DATABASE_URL: 'sqlite:x', PLAN_FILE: planFile, BASE_URL: base },
      ...{ KEY_PEPPER: secret, GUEST_KEY_SECRET: secret, ...settings, AUTH_URL: issuer },
    };
    return readIngressConfig(env).signIn;
  };
  outcomeOf = async (shape, settings) => {
    const signIn = createSignIn({ ...configWith(settings), issuerKeys, log: recordedLog().log });
    await signIn.check();
    const wanted = shapes[shape];
    if (wanted === undefined) throw new Error(`no shape ${shape}`);
    try {
      const { account, isOperator } = await signIn.identify(await tokenOf(wanted));
      return `${account.replace('user:', '')}${isOperator ? ', operator' : ''}`;
    } catch (error) {
      return error instanceof ApiError && error.code === 'INVALID_TOKEN' ? 'refused' : String(error);
    }
  };
});

test.after.always(async () => {
  await parts.disposeAsync();
  rmSync(directory, { recursive: true, force: true });
});

for (const [name, { byDefault }] of Object.entries(shapes)) {
  test(`without settings a token of the shape "${name}" is: ${byDefault}`, async (t) => {
    t.is(await outcomeOf(name), byDefault);
  });
}

test('with the settings that the page for operators lists, tokens of each provider are accepted, and its operators known', async (t) => {
  const documented = documentedSettings();
  t.deepEqual([...documented.keys()], [...new Set(byProvider.map(([provider]) => provider))]);
  for (const [provider, shape, outcome] of byProvider) {
    t.is(await outcomeOf(shape, documented.get(provider)), outcome, `${provider}: ${shape}`);
  }
});

test('with these settings the console requests the scopes and the API as each provider knows them', (t) => {
  for (const [provider, settings] of documentedSettings()) {
    const { consoleScopes, consoleResource } = configWith(settings);
    const expected = { consoleScopes: `openid ${ops}`, consoleResource: base, ...requests[provider] };
    t.deepEqual({ consoleScopes, consoleResource }, expected, provider);
  }
});
