import type { KeyClient } from './key-client.ts';

/** A key in a response of the service. */
export type ShownKey = Record<string, unknown> & { id: string; key: string };

/** The routes for further keys of one account, at the ingress of `keys`. */
export function createFurtherKeyClient(keys: KeyClient, account: string) {
  const call = (method: string, path: string, body?: unknown) => keys.signedIn(account, method, path, body);
  return {
    call,
    list: async () => (await call('GET', '/v1/keys')).body.data as ShownKey[],
    get: (id: string) => call('GET', `/v1/keys/${id}`),
    change: (id: string, fields: object) => call('PATCH', `/v1/keys/${id}`, fields),
    rotate: (id: string, body: object = {}) => call('POST', `/v1/keys/${id}/rotate`, body),
    revoke: (id: string) => call('DELETE', `/v1/keys/${id}`),
    /** Creates a key, and returns it in full. */
    async create(fields: object = {}): Promise<ShownKey> {
      const { status, body } = await call('POST', '/v1/keys', { name: 'a program', ...fields });
      if (status !== 200) throw new Error(`no key was created: ${JSON.stringify(body)}`);
      return body as ShownKey;
    },
  };
}
