import type { Keycloak } from './start-keycloak.ts';

/** Who can sign in, with the password `password`. */
type Realm = {
  issuer: string;
  /** Signs with a new key from now on, and withdraws the one from before. */
  rotateKey(): Promise<void>;
  /** Removes the scope `svc:admin`: then Keycloak refuses each request that names it. */
  removeOperatorScope(): Promise<void>;
};

type Wishes = {
  baseUrl: string;
  consoleUrl: string;
  /** How long access tokens live. */
  tokenLifeS: number;
  people: readonly string[];
  operators: readonly string[];
};

const name = 'main';
const role = 'svc-admin';
const scope = 'svc:admin';

/** Creates a realm by the steps of `sign-in.md#keycloak`, in their order, with everything else as Keycloak has it. */
export async function createRealm(keycloak: Keycloak, wishes: Wishes): Promise<Realm> {
  const { baseUrl, consoleUrl, tokenLifeS, people, operators } = wishes;
  await keycloak.call('POST', '', { realm: name, enabled: true, accessTokenLifespan: tokenLifeS });
  const call = (method: string, path: string, body?: unknown) => keycloak.call(method, `/${name}${path}`, body);
  const client = await call('POST', '/clients', {
    ...{ clientId: 'console', publicClient: true, standardFlowEnabled: true, redirectUris: [consoleUrl] },
    webOrigins: [new URL(consoleUrl).origin],
    attributes: { 'pkce.code.challenge.method': 'S256', 'post.logout.redirect.uris': consoleUrl },
  });
  const inference = await call('POST', '/client-scopes', { name: 'inference', protocol: 'openid-connect' });
  await call('POST', `/client-scopes/${inference}/protocol-mappers/models`, {
    ...{ name: 'audience', protocol: 'openid-connect', protocolMapper: 'oidc-audience-mapper' },
    config: { 'included.custom.audience': baseUrl, 'access.token.claim': 'true' },
  });
  await call('PUT', `/clients/${client}/default-client-scopes/${inference}`);

  const operatorScope = await call('POST', '/client-scopes', {
    ...{ name: scope, protocol: 'openid-connect', attributes: { 'include.in.token.scope': 'true' } },
  });
  await call('POST', '/roles', { name: role });
  const operatorRole = await call('GET', `/roles/${role}`);
  await call('POST', `/client-scopes/${operatorScope}/scope-mappings/realm`, [operatorRole]);
  await call('PUT', `/clients/${client}/optional-client-scopes/${operatorScope}`);

  for (const username of [...people, ...operators]) {
    const user = await call('POST', '/users', {
      ...{ username, enabled: true, emailVerified: true, email: `${username}@example.com` },
      ...{ firstName: username, lastName: 'Example' },
      credentials: [{ type: 'password', value: 'password', temporary: false }],
    });
    if (operators.includes(username)) await call('POST', `/users/${user}/role-mappings/realm`, [operatorRole]);
  }
  const { id } = (await call('GET', '')) as { id: string }; // Keycloak's own
  return {
    issuer: `${keycloak.url}/realms/${name}`,
    async rotateKey() {
      const providers = `/components?type=org.keycloak.keys.KeyProvider`;
      const known = (await call('GET', providers)) as { id: string; providerId: string }[]; // Keycloak's own
      await call('POST', '/components', {
        ...{ name: 'new', parentId: id, providerId: 'rsa-generated', providerType: 'org.keycloak.keys.KeyProvider' },
        config: { priority: ['200'], enabled: ['true'], active: ['true'], algorithm: ['RS256'] },
      });
      for (const { id, providerId } of known) {
        if (providerId === 'rsa-generated') await call('DELETE', `/components/${id}`);
      }
    },
    async removeOperatorScope() {
      await call('DELETE', `/client-scopes/${operatorScope}`);
    },
  };
}
