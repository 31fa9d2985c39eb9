import test from 'ava';
import { hashKey, makeKey } from '../../ingress/api-key.ts';
import { createCallers } from '../../ingress/callers.ts';
import { ApiError, type ErrorCode } from '../../shared/errors.ts';
import type { KeyOwner } from '../../shared/store/store.ts';

const pepper = 'the pepper that mints';
const olderPepper = 'the pepper before';
const alice = { account: 'user:alice', keyId: 'key_1', plan: 'free' };
const rereadMs = 60_000;

/** A store that can be made to fail or to hang, and counts what it was asked; the clock stands until it is moved. */
function createSubject() {
  const owners = new Map<string, KeyOwner>();
  const asked: string[] = [];
  let mode: 'answers' | 'fails' | 'hangs' = 'answers';
  let now = 1_000;
  const store = {
    async findKeyOwner(hash: string) {
      asked.push(hash);
      if (mode === 'hangs') await new Promise(() => {});
      if (mode === 'fails') throw new ApiError('SERVICE_UNAVAILABLE', 'The store is away.');
      return owners.get(hash);
    },
  };
  return {
    findCaller: createCallers({ store, peppers: [pepper, olderPepper], clock: { now: () => now } }),
    asked,
    give: (key: string, owner: typeof alice = alice, under = pepper) =>
      owners.set(hashKey(key, under), { ...owner, version: 1 }),
    take: (key: string) => owners.delete(hashKey(key, pepper)),
    become(next: typeof mode) {
      mode = next;
    },
    pass(ms: number) {
      now += ms;
    },
  };
}

async function codeOf(call: Promise<unknown>): Promise<ErrorCode | 'none'> {
  return call.then(
    () => 'none' as const,
    (error: unknown) => {
      if (error instanceof ApiError) return error.code;
      throw error;
    },
  );
}

test('a typing error and garbage are INVALID_KEY without asking the store', async (t) => {
  const { findCaller, asked } = createSubject();
  const key = makeKey();
  const typo = key.slice(0, 12) + (key[12] === 'a' ? 'b' : 'a') + key.slice(13);
  for (const wrong of [typo, '', 'svc_', `${key}0`, 'x'.repeat(10_000)]) {
    t.is(await codeOf(findCaller(wrong)), 'INVALID_KEY');
  }
  t.deepEqual(asked, []);
});

test('of 100 requests at once with a key that is new here one asks the store, and all get the caller', async (t) => {
  const { findCaller, asked, give } = createSubject();
  const key = makeKey();
  give(key);
  const callers = await Promise.all(Array.from({ length: 100 }, () => findCaller(key)));
  for (const caller of callers) t.deepEqual(caller, alice);
  t.is(asked.length, 1);
});

test('a caller is known for a minute and then read again, with what changed', async (t) => {
  const { findCaller, asked, give, pass } = createSubject();
  const key = makeKey();
  give(key);
  await findCaller(key);
  pass(rereadMs);
  await findCaller(key);
  t.is(asked.length, 1);

  give(key, { ...alice, plan: 'pro' });
  pass(1);
  t.is((await findCaller(key)).plan, 'pro');
  t.is(asked.length, 2);
  t.is((await findCaller(key)).plan, 'pro');
  t.is(asked.length, 2);
});

test('a key that nobody has is INVALID_KEY, and found as soon as somebody has it', async (t) => {
  const { findCaller, give } = createSubject();
  const key = makeKey();
  t.is(await codeOf(findCaller(key)), 'INVALID_KEY');
  give(key);
  t.deepEqual(await findCaller(key), alice);
});

test('while the store is away a known caller is kept, and an unknown one is 503 and never 401', async (t) => {
  const { findCaller, asked, give, pass, become } = createSubject();
  const [known, unknown] = [makeKey(), makeKey()];
  give(known);
  give(unknown);
  await findCaller(known);
  become('fails');
  for (let minute = 0; minute < 5; minute++) {
    pass(rereadMs + 1);
    t.deepEqual(await findCaller(known), alice);
    t.is(await codeOf(findCaller(unknown)), 'SERVICE_UNAVAILABLE');
  }
  const before = asked.length;
  t.deepEqual(await findCaller(known), alice);
  t.is(asked.length, before, 'a store that failed is left alone for a while');
  become('answers');
  t.deepEqual(await findCaller(unknown), alice);
});

test('a store that does not answer holds up nobody who is known', async (t) => {
  const { findCaller, asked, give, pass, become } = createSubject();
  const key = makeKey();
  give(key);
  await findCaller(key);
  become('hangs');
  pass(rereadMs + 1);
  const callers = await Promise.all(Array.from({ length: 10 }, () => findCaller(key)));
  for (const caller of callers) t.deepEqual(caller, alice);
  t.is(asked.length, 2);
});

test('a key that ended stays ended, also when the store goes away after that', async (t) => {
  const { findCaller, give, take, pass, become } = createSubject();
  const key = makeKey();
  give(key);
  await findCaller(key);
  take(key);
  pass(rereadMs + 1);
  const codes = await Promise.all(Array.from({ length: 5 }, () => codeOf(findCaller(key))));
  t.deepEqual(codes, Array(5).fill('INVALID_KEY'));
  become('fails');
  t.is(await codeOf(findCaller(key)), 'SERVICE_UNAVAILABLE');
});

test('a key from under the pepper before is found too, the one that mints being asked first', async (t) => {
  const { findCaller, asked, give } = createSubject();
  const key = makeKey();
  give(key, alice, olderPepper);
  t.deepEqual(await findCaller(key), alice);
  t.deepEqual(asked, [hashKey(key, pepper), hashKey(key, olderPepper)]);
});

test('the store is never given a key, and the caller holds no more than it has to', async (t) => {
  const { findCaller, asked, give } = createSubject();
  const key = makeKey();
  give(key);
  t.deepEqual(Object.keys(await findCaller(key)).sort(), ['account', 'keyId', 'plan']);
  t.false(asked.some((hash) => hash.includes(key.slice(4))));
});
