import type { ExecutionContext } from 'ava';
import { type Answer, fullKey, type KeyClient, masked } from './key-client.ts';

/** Far above what is promised (a second), far below what a hang would be: no verdict on a noisy machine's speed. */
const neverAHangMs = 8_000;

/** Who there is before a part goes away; `seen` are those of whom this ingress has memory. */
export type Cast = { seen: string; unseen: string; guest: string };

/** Each of the seen is asked for once here, so that this ingress knows it. */
export async function createCast(keys: KeyClient): Promise<Cast> {
  const seen = await keys.newKey('seen');
  const unseen = await keys.newKey('unseen');
  const guest = String((await keys.guest('device-of-ann')).body.key);
  const first = Object.values(callsOfTheSeen(keys, { seen, unseen, guest }));
  const statuses = await Promise.all(
    [...first, () => keys.account('user:seen')].map(async (call) => (await call()).status),
  );
  if (statuses.some((status) => status !== 200)) throw new Error(`the service is not well: ${statuses}`);
  await keys.token('stranger');
  await keys.token('newcomer');
  return { seen, unseen, guest };
}

/** Requests by what they are. */
export type Calls = Record<string, () => Promise<Answer>>;
const chatBody = { model: 'small-chat', messages: [{ role: 'user', content: 'Hi' }] };
const infer = (keys: KeyClient, key: string) => () =>
  keys.send('POST', '/v1/chat/completions', { bearer: key, body: chatBody });

/** What needs the store: all but a caller who is known. */
export function callsOfStore(keys: KeyClient, { seen, unseen }: Cast): Calls {
  return {
    'mint, a repeat': () => keys.mint('seen'),
    'mint, the first': () => keys.mint('newcomer'),
    rotate: () => keys.rotate('seen', seen),
    'rotate, masked': () => keys.rotate('seen', masked(seen)),
    revoke: () => keys.revoke('seen', seen),
    list: async () => keys.send('GET', '/v1/keys/developer', { bearer: await keys.token('seen') }),
    'guest mint, a repeat': () => keys.guest('device-of-ann'),
    'guest mint, the first': () => keys.guest('device-of-bob'),
    'operator reads': () => keys.account('user:seen'),
    'operator reads of nobody': () => keys.account('user:nobody'),
    'operator lists': async () => keys.send('GET', '/admin/accounts', { bearer: await keys.token('operator', true) }),
    'operator reads usage': async () =>
      keys.send('GET', '/admin/accounts/user%3Aseen/usage', { bearer: await keys.token('operator', true) }),
    'usage, a key': () => keys.send('GET', '/billing/usage', { bearer: seen }),
    'operator suspends': () => keys.change('user:seen', { suspended: true }),
    'operator changes a plan': () => keys.change('user:seen', { plan: 'pro' }),
    'models, a key never seen': () => keys.models(unseen),
    'inference, a key never seen': infer(keys, unseen),
    'models, an account never seen': async () =>
      keys.send('GET', '/v1/models', { bearer: await keys.token('stranger') }),
  };
}

/** What a caller who is known can do without the store. */
export function callsOfTheSeen(keys: KeyClient, { seen, guest }: Cast): Calls {
  return {
    'models, a key': () => keys.models(seen),
    'inference, a key': infer(keys, seen),
    'models, a guest key': () => keys.models(guest),
    'models, a sign-in token': async () => keys.send('GET', '/v1/models', { bearer: await keys.token('seen') }),
    'its plan, a key': () => keys.send('GET', '/billing/plan', { bearer: seen }),
    'one model, a key': () => keys.send('GET', '/v1/models/small-chat', { bearer: seen }),
  };
}

/** All at once, so that those that wait for a time-out wait for the same one; returns the longest wait of them. */
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
      t.true(waitedMs < neverAHangMs, `${title}: ${waitedMs} ms`);
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

/** Everything works, the key that was to be rotated can be, and there is one that is active. */
export async function isWellAgain(t: ExecutionContext, keys: KeyClient, cast: Cast): Promise<void> {
  await areAnswered(t, callsOfTheSeen(keys, cast));
  await areAnswered(t, { unseen: () => keys.models(cast.unseen), infer: infer(keys, cast.unseen) });
  const before = await keys.list('seen');
  t.is(before.filter(({ state }) => state === 'active').length, 1);
  const rotated = await keys.rotate('seen', before[0]?.key ?? '');
  t.is(rotated.status, 200);
  t.regex(String(rotated.body.key), fullKey);
  t.deepEqual(await statesOf(keys, 'seen'), ['active', ...before.map(() => 'rotated')]);
  t.is((await keys.models(cast.seen)).status, 401);
  t.like(await keys.infer(cast.seen), { status: 401, code: 'INVALID_KEY' });
  await areAnswered(t, callsOfTheSeen(keys, { ...cast, seen: String(rotated.body.key) }));
  t.deepEqual((await keys.guest('device-of-ann')).body.key, cast.guest);
  t.is((await keys.guest('device-of-bob')).status, 200);
  t.regex(await keys.newKey('newcomer'), fullKey);
}
