import { setTimeout as sleep } from 'node:timers/promises';
import type { IdentityProvider } from '../stack/identity-provider.ts';
import { chat } from './chat.ts';
import { documentedFetch } from './documented/documented-fetch.ts';

export type Answer = { status: number; headers: Headers; body: Record<string, unknown> };

/** A key as shown in the list. */
type ListedKey = {
  id: string;
  key: string;
  plan: string;
  state: 'active' | 'rotated' | 'revoked';
  createdAt: string;
  endedAt?: string;
  lastUsedAt?: string;
};

export const fullKey = /^svc_[0-9A-Za-z]{38}$/;
export const masked = (key: string) => `${key.slice(0, 10)}****`;

/** The parts of a stack that key requests need. */
type Service = { ingresses: readonly { url: string }[]; identity: Pick<IdentityProvider, 'token'> };

type Options = { url?: () => string; fetch?: typeof documentedFetch };

/** The routes for keys, at the first ingress of the stack unless another `url` is given. Answers are checked unless `fetch` is given. */
export function createKeyClient(stack: Service, options: Options = {}) {
  const { fetch = documentedFetch } = options;
  const url = options.url ?? (() => stack.ingresses[0]?.url ?? '');
  const tokens = new Map<string, Promise<string>>();
  const token = (account: string, admin = false) => {
    const name = `${account} ${admin}`;
    if (!tokens.has(name)) tokens.set(name, stack.identity.token(account, { admin }));
    return tokens.get(name) as Promise<string>; // it was set a line before
  };

  /** `body` is sent unchanged if it is text, otherwise as JSON. Without `bearer` no credential is sent. */
  async function send(method: string, path: string, wishes: Wishes = {}): Promise<Answer> {
    const { bearer, body, headers } = wishes;
    const response = await fetch(`${url()}${path}`, {
      method,
      headers: {
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? {} : JSON.parse(text) };
  }

  const withToken = async (account: string, method: string, path: string, body?: unknown) =>
    send(method, path, { bearer: await token(account), body });
  const admin = async (method: string, account: string, body?: unknown) =>
    send(method, `/admin/accounts/${encodeURIComponent(account)}`, { bearer: await token('operator', true), body });

  const mint = (account: string) => withToken(account, 'POST', '/v1/keys/developer', {});
  const rotate = (account: string, key: string) => withToken(account, 'POST', '/v1/keys/developer/rotate', { key });

  return {
    send,
    token,
    signedIn: withToken,
    mint,
    rotate,
    revoke: (account: string, key: string) => withToken(account, 'POST', '/v1/keys/developer/revoke', { key }),
    async list(account: string): Promise<ListedKey[]> {
      const { body } = await withToken(account, 'GET', '/v1/keys/developer');
      return body.data as ListedKey[]; // a response of the service itself
    },
    guest: (deviceId: unknown, headers?: Record<string, string>) =>
      send('POST', '/v1/keys/guest', { body: { device_id: deviceId }, ...(headers && { headers }) }),
    account: (account: string) => admin('GET', account),
    change: (account: string, settings: unknown) => admin('PATCH', account, settings),
    models: (key: string) => send('GET', '/v1/models', { bearer: key }),
    /** The status of an inference request, and the code of its refusal. */
    async infer(key: string, model = 'small-chat'): Promise<{ status: number; code?: unknown; type?: unknown }> {
      const response = await chat({ url: url(), key, question: 'Who am I?', model });
      const { code, error } = (await response.json()) as { code?: unknown; error?: { code?: unknown; type?: unknown } };
      return { status: response.status, code: code ?? error?.code, type: error?.type };
    },
    /**
     * A new developer key of an account without a key. On a busy machine a call can take too long and answer 503, although the key may be
     * minted by then. A further call then shows it masked, and it is rotated.
     */
    async newKey(account: string): Promise<string> {
      let { status, body } = await mint(account);
      for (let again = 0; status === 503 && again < 10; again++) {
        await sleep(100);
        ({ status, body } = await mint(account));
        if (status !== 200 || fullKey.test(String(body.key))) continue;
        ({ status, body } = await rotate(account, String(body.key)));
      }
      if (!fullKey.test(String(body.key))) throw new Error(`no key was minted for ${account}: ${JSON.stringify(body)}`);
      return String(body.key);
    },
  };
}

type Wishes = { bearer?: string; body?: unknown; headers?: Record<string, string> };
export type KeyClient = ReturnType<typeof createKeyClient>;
