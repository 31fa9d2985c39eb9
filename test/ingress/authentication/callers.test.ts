import { mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { makeKey } from '../../../ingress/authentication/api-key.ts';
import { type Credential, keyCredential } from '../../../ingress/authentication/authorization.ts';
import { createCallers, type SharedCallers } from '../../../ingress/authentication/callers.ts';
import { ApiError, type ErrorCode } from '../../../shared/errors.ts';
import type { Account, Caller } from '../../../shared/store/records/account.ts';
import type { KeyOwner } from '../../../shared/store/records/account-store.ts';

// The timeout of the store passes only when a test moves the timers, also on a busy machine.
test.before(() => mock.timers.enable({ apis: ['setTimeout'] }));
test.after.always(() => mock.timers.reset());

const peppers = ['the pepper that mints', 'the pepper before'];
const credentialOf = (key: string) => keyCredential(key, peppers);
const alice = {
  account: 'user:alice',
  keyId: 'key_1',
  plan: 'free',
  suspended: false,
  overageEnabled: false,
  version: 1,
};
const rereadMs = 60_000;
const unknownMs = 2_000;

/** A store that can fail or hang, and counts its calls; the clock stands still until it is moved. */
function createSubject() {
  const owners = new Map<string, KeyOwner>();
  const accounts = new Map<string, Account>();
  const shared = new Map<string, { caller: Caller; ageMs: number }>();
  const asked: string[] = [];
  let askedRedis = 0;
  let puts = 0;
  let mode: 'answers' | 'fails' | 'hangs' = 'answers';
  let now = 1_000;

  async function answer<T>(name: string, value: () => T): Promise<T> {
    asked.push(name);
    if (mode === 'hangs') await new Promise(() => {});
    if (mode === 'fails') throw new ApiError('SERVICE_UNAVAILABLE', 'The store is unavailable.');
    await new Promise((resolve) => setImmediate(resolve));
    return value();
  }
  const store = {
    findKeyOwner: (hashes: readonly string[]) =>
      answer(hashes.join(), () => hashes.map((hash) => owners.get(hash)).find((owner) => owner !== undefined)),
    findAccount: (id: string) => answer(id, () => accounts.get(id)),
  };
  const sharedCallers: SharedCallers = {
    async get(hash) {
      askedRedis++;
      return shared.get(hash);
    },
    async put(hash, caller) {
      puts++;
      shared.set(hash, { caller, ageMs: 0 });
    },
  };
  const callers = createCallers({
    store,
    sharedCallers,
    guestSecretsInUse: ({ secret }) => secret === 'in use',
    defaultPlan: () => 'free',
    clock: { now: () => now },
  });
  return {
    ...callers,
    asked,
    askedRedis: () => askedRedis,
    puts: () => puts,
    accounts,
    shared,
    give: (credential: Credential, owner: KeyOwner = alice, under = 0) =>
      'hashes' in credential && owners.set(credential.hashes[under] ?? '', owner),
    take: (credential: Credential) => 'hashes' in credential && owners.delete(credential.hashes[0] ?? ''),
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

test('of 100 concurrent requests with a new key, one asks Redis and then the store, and all get the caller', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  subject.give(credential);
  const found = await Promise.all(Array.from({ length: 100 }, () => subject.find(credential)));
  for (const caller of found) t.deepEqual(caller, alice);
  t.deepEqual([subject.askedRedis(), subject.asked.length], [1, 1]);
});

test('a key is known from its first lookup until a read finds that it has ended, also while it is due for a reread', async (t) => {
  const { find, knows, give, take, pass } = createSubject();
  const credential = credentialOf(makeKey());
  give(credential);
  t.false(knows(credential));
  await find(credential);
  pass(10 * rereadMs);
  t.true(knows(credential));
  take(credential);
  await codeOf(find(credential));
  t.false(knows(credential));
});

test('a caller is cached for a minute and then read again with its changes', async (t) => {
  const { find, asked, give, pass } = createSubject();
  const credential = credentialOf(makeKey());
  give(credential);
  await find(credential);
  pass(rereadMs);
  await find(credential);
  t.is(asked.length, 1);

  give(credential, { ...alice, plan: 'pro', version: 2 });
  pass(1);
  t.like(await find(credential), { plan: 'pro', version: 2 });
  t.is(asked.length, 2);
  t.like(await find(credential), { plan: 'pro' });
  t.is(asked.length, 2);
});

test('a caller that another ingress has read is taken from Redis with its age', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  subject.give(credential, { ...alice, version: 2 });
  subject.shared.set(credential.hashes[0] ?? '', { caller: alice, ageMs: rereadMs - 10 });
  t.deepEqual(await subject.find(credential), alice);
  t.deepEqual(subject.asked, []);
  subject.pass(11);
  t.like(await subject.find(credential), { version: 2 });
  t.is(subject.asked.length, 1);
});

test('a read caller is shared; an old shared caller is read again, and is used while the store is unavailable', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  const hash = credential.hashes[0] ?? '';
  subject.give(credential);
  await subject.find(credential);
  t.deepEqual(subject.shared.get(hash), { caller: alice, ageMs: 0 });

  const old = createSubject();
  old.shared.set(hash, { caller: alice, ageMs: rereadMs });
  old.give(credential, { ...alice, version: 2 });
  t.like(await old.find(credential), { version: 2 });

  const away = createSubject();
  away.shared.set(hash, { caller: alice, ageMs: rereadMs });
  away.become('fails');
  t.deepEqual(await away.find(credential), alice);
});

test('an unknown key is INVALID_KEY; the store is not asked again for two seconds', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  t.is(await codeOf(subject.find(credential)), 'INVALID_KEY');
  subject.give(credential);
  subject.pass(unknownMs);
  t.is(await codeOf(subject.find(credential)), 'INVALID_KEY');
  t.deepEqual([subject.asked.length, subject.askedRedis()], [1, 2]);
  subject.pass(1);
  t.deepEqual(await subject.find(credential), alice);
});

test('an unknown key is accepted as soon as another ingress shares its caller, and ended keys are not shared', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  t.is(await codeOf(subject.find(credential)), 'INVALID_KEY');
  subject.shared.set(credential.hashes[0] ?? '', { caller: alice, ageMs: 0 });
  t.deepEqual(await subject.find(credential), alice);
});

test('a key that has ended is not looked up again although Redis still has its caller', async (t) => {
  for (const ageMs of [0, rereadMs]) {
    const subject = createSubject();
    const credential = credentialOf(makeKey());
    subject.shared.set(credential.hashes[0] ?? '', { caller: alice, ageMs });
    if (ageMs === 0) await subject.find(credential);
    const ended = ageMs === 0 ? subject.reread(credential) : subject.find(credential);
    t.is(await codeOf(ended), 'INVALID_KEY');
    for (let count = 0; count < 5; count++) t.is(await codeOf(subject.find(credential)), 'INVALID_KEY');
    t.is(subject.asked.length, 1);
    subject.shared.set(credential.hashes[0] ?? '', { caller: { ...alice, version: 2 }, ageMs: 0 });
    t.like(await subject.find(credential), { version: 2 }, 'a newer caller is used');
  }
});

test('a key that is created during an unsuccessful lookup is found by the next one', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  const early = subject.find(credential);
  const late = early.catch(() => subject.give(credential)).then(() => subject.pass(unknownMs + 1));
  t.is(await codeOf(early), 'INVALID_KEY');
  await late;
  t.deepEqual(await subject.find(credential), alice);

  const racing = createSubject();
  const first = racing.find(credential);
  racing.give(credential);
  t.deepEqual(await racing.find(credential), alice, 'by a read that began after the creation');
  await codeOf(first);
});

test('a bounded number of unknown keys is looked up at once; others get 503, and known keys continue', async (t) => {
  const subject = createSubject();
  const known = credentialOf(makeKey());
  subject.give(known);
  await subject.find(known);
  const flood = Array.from({ length: 1_000 }, (_, index) => codeOf(subject.find({ hashes: [`flood ${index}`] })));
  t.deepEqual(await subject.reread(known), alice);
  const codes = await Promise.all(flood);
  t.is(codes.filter((code) => code === 'INVALID_KEY').length, 200);
  t.is(codes.filter((code) => code === 'SERVICE_UNAVAILABLE').length, 800);
  t.is(await codeOf(subject.find({ hashes: ['later'] })), 'INVALID_KEY');
});

test('500 requests of a caller due for a reread read and share it once', async (t) => {
  const subject = createSubject();
  const credential = credentialOf(makeKey());
  subject.give(credential);
  await subject.find(credential);
  subject.pass(rereadMs + 1);
  const before = subject.puts();
  await Promise.all(Array.from({ length: 500 }, () => subject.find(credential)));
  t.deepEqual([subject.asked.length, subject.puts() - before], [2, 1]);
});

test('the memory of unknown keys is bounded', async (t) => {
  const subject = createSubject();
  const first = credentialOf(makeKey());
  await codeOf(subject.find(first));
  for (let count = 0; count < 10_000; count++) await codeOf(subject.find({ hashes: [`hash ${count}`] }));
  const before = subject.asked.length;
  await codeOf(subject.find(first));
  t.is(subject.asked.length, before + 1, 'the oldest was evicted');
  await codeOf(subject.find({ hashes: ['hash 9999'] }));
  t.is(subject.asked.length, before + 1);
});

test('while the store is unavailable a known caller is kept, and an unknown one gets 503 and never 401', async (t) => {
  const { find, asked, give, pass, become } = createSubject();
  const [known, unknown] = [credentialOf(makeKey()), credentialOf(makeKey())];
  give(known);
  give(unknown);
  await find(known);
  become('fails');
  for (let minute = 0; minute < 5; minute++) {
    pass(rereadMs + 1);
    t.deepEqual(await find(known), alice);
    t.is(await codeOf(find(unknown)), 'SERVICE_UNAVAILABLE');
  }
  const before = asked.length;
  t.deepEqual(await find(known), alice);
  t.is(asked.length, before, 'a store that failed is not asked again for a while');
  become('answers');
  t.deepEqual(await find(unknown), alice);
});

test.serial('a store that does not answer delays a known caller by 100 ms', async (t) => {
  const { find, asked, give, pass, become } = createSubject();
  const credential = credentialOf(makeKey());
  give(credential);
  await find(credential);
  become('hangs');
  pass(rereadMs + 1);
  const found: (Caller | undefined)[] = [];
  const finding = Array.from({ length: 10 }, () => find(credential).then((caller) => found.push(caller)));
  await turn();
  mock.timers.tick(99);
  await turn();
  t.is(found.length, 0);
  mock.timers.tick(1);
  await turn();
  t.is(found.length, 10);
  await Promise.all(finding);
  for (const caller of found) t.deepEqual(caller, alice);
  t.is(asked.length, 2);
});

test('a key that ended stays ended, even if the store becomes unavailable after that', async (t) => {
  const { find, give, take, pass, become, shared } = createSubject();
  const credential = credentialOf(makeKey());
  give(credential);
  await find(credential);
  take(credential);
  pass(rereadMs + 1);
  const codes = await Promise.all(Array.from({ length: 5 }, () => codeOf(find(credential))));
  t.deepEqual(codes, Array(5).fill('INVALID_KEY'));
  become('fails');
  shared.clear();
  pass(unknownMs + 1);
  t.is(await codeOf(find(credential)), 'SERVICE_UNAVAILABLE');
});

test('a key under the previous pepper is found by the same read', async (t) => {
  const { find, asked, give } = createSubject();
  const credential = credentialOf(makeKey());
  give(credential, alice, 1);
  t.deepEqual(await find(credential), alice);
  t.deepEqual(asked, [credential.hashes.join()]);
});

test('a caller has the overage and the top-up of the account behind its key', async (t) => {
  const { find, give } = createSubject();
  const credential = credentialOf(makeKey());
  const owner = { ...alice, overageEnabled: true, topUp: { month: '2026-03', tokens: 500 } };
  give(credential, owner);
  t.deepEqual(await find(credential), owner);
});

test('a guest key is valid while the secrets that it was made with are in use', async (t) => {
  const { find, give } = createSubject();
  const [honoured, withdrawn] = [credentialOf(makeKey()), credentialOf(makeKey())];
  give(honoured, { ...alice, guest: { secret: 'in use', pepper: 'any' } });
  give(withdrawn, { ...alice, guest: { secret: 'withdrawn', pepper: 'any' } });
  t.deepEqual(await find(honoured), alice);
  t.is(await codeOf(find(withdrawn)), 'INVALID_KEY');
});

test('an account that is not known here is looked up only on demand, and is as the store says', async (t) => {
  const { find, reread, asked, accounts } = createSubject();
  t.is(await find({ account: 'user:bob' }), undefined);
  t.deepEqual(asked, []);
  const neverUsed = { account: 'user:bob', plan: 'free', suspended: false, overageEnabled: false, version: 0 };
  t.deepEqual(await reread({ account: 'user:bob' }), neverUsed);
  t.deepEqual(await find({ account: 'user:bob' }), neverUsed);

  const bob = {
    id: 'user:bob',
    plan: 'pro',
    suspended: true,
    overageEnabled: true,
    topUp: { month: '2026-03', tokens: 500 },
    version: 4,
    createdAt: new Date(),
    topUpsMade: [{ id: 'a', tokens: 500 }],
    keys: [],
    changes: [],
  };
  accounts.set('user:bob', bob);
  const { plan, suspended, overageEnabled, topUp, version } = bob;
  const counters = { plan, suspended, overageEnabled, topUp, version };
  t.deepEqual(await reread({ account: 'user:bob' }), { account: 'user:bob', ...counters });
  t.is(asked.length, 2);
});

test('a reread begins after its request, and concurrent rereads are shared', async (t) => {
  const { reread, asked, give } = createSubject();
  const credential = credentialOf(makeKey());
  give(credential);
  const early = reread(credential);
  give(credential, { ...alice, version: 2 });
  const late = Array.from({ length: 50 }, () => reread(credential));
  await early;
  for (const caller of await Promise.all(late)) t.like(caller, { version: 2 });
  t.is(asked.length, 2);
});

test('the store receives no key', async (t) => {
  const { find, asked, give } = createSubject();
  const key = makeKey();
  give(credentialOf(key));
  await find(credentialOf(key));
  t.false(asked.some((hashes) => hashes.includes(key.slice(4))));
});
