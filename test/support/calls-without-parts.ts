import type { ExecutionContext } from 'ava';
import { type Answer, fullKey, type KeyClient, masked } from './key-client.ts';

/**
 * Accounts and their keys before a part becomes unavailable, not shared with other casts: their names begin with `name`. This ingress has
 * the seen ones cached.
 */
export type Cast = { name: string; seen: string; unseen: string; guest: string };

/** Sends one request for each of the seen ones, so that this ingress knows them. */
export async function createCast(keys: KeyClient, name: string): Promise<Cast> {
  const seen = await keys.newKey(`${name}-seen`);
  const unseen = await keys.newKey(`${name}-unseen`);
  const guest = String((await keys.guest(`${name}-device`)).body.key);
  const cast = { name, seen, unseen, guest };
  const first = Object.values(callsOfTheSeen(keys, cast));
  const statuses = await Promise.all(
    [...first, () => keys.account(`user:${name}-seen`)].map(async (call) => (await call()).status),
  );
  if (statuses.some((status) => status !== 200)) throw new Error(`the service does not work: ${statuses}`);
  await keys.token(`${name}-stranger`);
  await keys.token(`${name}-newcomer`);
  return cast;
}

/** Requests by description. */
export type Calls = Record<string, () => Promise<Answer>>;
const chatBody = { model: 'small-chat', messages: [{ role: 'user', content: 'Hi' }] };
const infer = (keys: KeyClient, key: string) => () =>
  keys.send('POST', '/v1/chat/completions', { bearer: key, body: chatBody });

/** Requests that need the store: all except those of a known caller. */
export function callsOfStore(keys: KeyClient, { name, seen, unseen }: Cast): Calls {
  const account = `${name}-seen`;
  return {
    'mint, a repeat': () => keys.mint(account),
    'mint, the first': () => keys.mint(`${name}-newcomer`),
    rotate: () => keys.rotate(account, seen),
    'rotate, masked': () => keys.rotate(account, masked(seen)),
    revoke: () => keys.revoke(account, seen),
    list: async () => keys.send('GET', '/v1/keys/developer', { bearer: await keys.token(account) }),
    'guest mint, a repeat': () => keys.guest(`${name}-device`),
    'guest mint, the first': () => keys.guest(`${name}-another-device`),
    'operator reads': () => keys.account(`user:${account}`),
    'operator reads an unknown account': () => keys.account('user:unknown'),
    'operator lists': async () => keys.send('GET', '/admin/accounts', { bearer: await keys.token('operator', true) }),
    'operator reads usage': async () =>
      keys.send('GET', `/admin/accounts/user%3A${account}/usage`, { bearer: await keys.token('operator', true) }),
    ...Object.fromEntries(
      ['quota', 'limits'].map((what) => [
        `operator reads ${what}`,
        async () =>
          keys.send('GET', `/admin/accounts/user%3A${account}/${what}`, { bearer: await keys.token('operator', true) }),
      ]),
    ),
    'usage, a key': () => keys.send('GET', '/billing/usage', { bearer: seen }),
    'account changes its overage': () => keys.signedIn(account, 'PATCH', '/billing/overage', { enabled: true }),
    'operator suspends': () => keys.change(`user:${account}`, { suspended: true }),
    'operator changes a plan': () => keys.change(`user:${account}`, { plan: 'pro' }),
    'models, a key never seen': () => keys.models(unseen),
    'inference, a key never seen': infer(keys, unseen),
    'models, an account never seen': async () =>
      keys.send('GET', '/v1/models', { bearer: await keys.token(`${name}-stranger`) }),
  };
}

/** Requests that a known caller can make without the store. */
export function callsOfTheSeen(keys: KeyClient, { name, seen, guest }: Cast): Calls {
  return {
    'models, a key': () => keys.models(seen),
    'inference, a key': infer(keys, seen),
    'models, a guest key': () => keys.models(guest),
    'models, a sign-in token': async () => keys.send('GET', '/v1/models', { bearer: await keys.token(`${name}-seen`) }),
    'its plan, a key': () => keys.send('GET', '/billing/plan', { bearer: seen }),
    'one model, a key': () => keys.send('GET', '/v1/models/small-chat', { bearer: seen }),
  };
}

/** Sends all at once, so that those that wait for a timeout wait for the same one. Returns the longest wait. */
export async function areUnavailable(t: ExecutionContext, calls: Calls): Promise<number> {
  const waits = await Promise.all(
    Object.entries(calls).map(async ([title, call]) => {
      const startedAt = performance.now();
      const { status, headers, body } = await call();
      const waitedMs = performance.now() - startedAt;
      t.deepEqual(
        [status, body.code, Object.keys(body).sort()],
        [503, 'SERVICE_UNAVAILABLE', ['code', 'error']],
        title,
      );
      t.regex(headers.get('retry-after') ?? '', /^[1-9]\d*$/, title);
      return waitedMs;
    }),
  );
  return Math.round(Math.max(...waits));
}

export async function areAnswered(t: ExecutionContext, calls: Calls): Promise<void> {
  for (const [title, call] of Object.entries(calls)) {
    const { status, body } = await call();
    t.is(status, 200, `${title}: ${JSON.stringify(body)}`);
  }
}

const statesOf = async (keys: KeyClient, account: string) => (await keys.list(account)).map(({ state }) => state);

/** Checks that everything works, the key to rotate can be rotated, and one key is active. */
export async function isWellAgain(t: ExecutionContext, keys: KeyClient, cast: Cast): Promise<void> {
  const account = `${cast.name}-seen`;
  await areAnswered(t, callsOfTheSeen(keys, cast));
  await areAnswered(t, { unseen: () => keys.models(cast.unseen), infer: infer(keys, cast.unseen) });
  const before = await keys.list(account);
  t.is(before.filter(({ state }) => state === 'active').length, 1);
  const rotated = await keys.rotate(account, before[0]?.key ?? '');
  t.is(rotated.status, 200);
  t.regex(String(rotated.body.key), fullKey);
  t.deepEqual(await statesOf(keys, account), ['active', ...before.map(() => 'rotated')]);
  t.is((await keys.models(cast.seen)).status, 401);
  t.like(await keys.infer(cast.seen), { status: 401, code: 'INVALID_KEY' });
  await areAnswered(t, callsOfTheSeen(keys, { ...cast, seen: String(rotated.body.key) }));
  t.deepEqual((await keys.guest(`${cast.name}-device`)).body.key, cast.guest);
  t.is((await keys.guest(`${cast.name}-another-device`)).status, 200);
  t.regex(await keys.newKey(`${cast.name}-newcomer`), fullKey);
}
