import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import type { RunningIngress, Stack } from '../stack/stack.ts';
import { errorsIn } from './errors-in.ts';
import type { See } from './faults/fault-test.ts';
import { type Answer, fullKey, type KeyClient, masked } from './key-client.ts';

/** As long as any test waits. A request that waits for a time limit of the plan waits longer. */
const neverAHangMs = 30_000;

/**
 * Accounts and their keys before a part becomes unavailable, not shared with other casts: their names begin with `name`. This ingress has
 * the seen ones cached.
 */
export type Cast = { name: string; seen: string; unseen: string; guest: string };

/** Sends one request for each of the seen ones, so that this ingress knows them. */
async function createCast(keys: KeyClient, name: string): Promise<Cast> {
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

/** A part that is away for a while, and what each call gets meanwhile. */
export type Outage = {
  begin(t: ExecutionContext): unknown;
  end(): unknown;
  /** These get 503 and change nothing. */
  unavailable(keys: KeyClient, cast: Cast): Calls;
  /** These are answered as usual. */
  answered(keys: KeyClient, cast: Cast): Calls;
  /** How often all of them are sent. Default: once. */
  times?: number;
  /** Of every ingress. Default: 200. */
  readiness?: number;
  /** Further promises, asserted after these calls, or after the end. */
  meanwhile?(t: ExecutionContext, keys: KeyClient, cast: Cast): Promise<void>;
  afterwards?(t: ExecutionContext): Promise<void>;
};

type Scene = { stack: Stack; keys: KeyClient; name: string };

/** Requires what an outage promises, and that everything works again after it. */
export async function survivesOutage(t: ExecutionContext, see: See, { stack, keys, name, ...outage }: Scene & Outage) {
  const cast = await createCast(keys, name);
  const [unavailable, answered] = [outage.unavailable(keys, cast), outage.answered(keys, cast)];
  const before = await settingsOf(keys, `user:${name}-seen`);
  await outage.begin(t);
  for (let time = 1; time <= (outage.times ?? 1); time++) {
    await areAnswered(t, answered);
    const [longestMs] = await Promise.all([areUnavailable(t, unavailable), areAnswered(t, answered)]);
    await areAnswered(t, answered);
    see(`${Object.keys(unavailable).length} calls got 503, after at most ${longestMs} ms`);
  }
  for (const ingress of stack.ingresses) t.is(await readinessOf(ingress), outage.readiness ?? 200);
  await outage.meanwhile?.(t, keys, cast);

  await outage.end();
  for (const ingress of stack.ingresses) await untilReadiness(ingress, 200);
  t.is(await inferredStatus(keys, cast.seen), 200);
  t.deepEqual(await settingsOf(keys, `user:${name}-seen`), before);
  t.is((await keys.account(`user:${name}-newcomer`)).status, 404);
  await isWellAgain(t, keys, cast);
  await outage.afterwards?.(t);
  t.deepEqual(errorsIn(stack.ingresses), []);
}

const usedAt = ['lastUsedAt', 'last_used_at'];

/** Without the times of use, which reads change as well. */
async function settingsOf(keys: KeyClient, account: string): Promise<unknown> {
  const { status, body } = await keys.account(account);
  return JSON.parse(JSON.stringify({ status, body }, (name, value) => (usedAt.includes(name) ? undefined : value)));
}

export async function readinessOf({ operationsUrl }: Pick<RunningIngress, 'operationsUrl'>): Promise<number> {
  const response = await fetch(`${operationsUrl}/readyz`);
  await response.body?.cancel();
  return response.status;
}

export async function untilReadiness(process: Pick<RunningIngress, 'operationsUrl'>, status: number): Promise<void> {
  while ((await readinessOf(process)) !== status) await sleep(20);
}

/** Lost connections are reopened within seconds. Until then requests get 503. */
export async function inferredStatus(keys: KeyClient, key: string): Promise<number> {
  for (;;) {
    const { status } = await keys.infer(key);
    if (status !== 503) return status;
    await sleep(20);
  }
}

/** Sends all at once, so that those that wait for a timeout wait for the same one. Returns the longest wait. */
async function areUnavailable(t: ExecutionContext, calls: Calls): Promise<number> {
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

async function areAnswered(t: ExecutionContext, calls: Calls): Promise<void> {
  for (const [title, call] of Object.entries(calls)) {
    const { status, body } = await call();
    t.is(status, title.endsWith('an unknown account') ? 404 : 200, `${title}: ${JSON.stringify(body)}`);
  }
}

const statesOf = async (keys: KeyClient, account: string) => (await keys.list(account)).map(({ state }) => state);

/** Checks that everything works, the key to rotate can be rotated, and one key is active. */
async function isWellAgain(t: ExecutionContext, keys: KeyClient, cast: Cast): Promise<void> {
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
