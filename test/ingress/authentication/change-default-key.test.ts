import test from 'ava';
import {
  createKey,
  mintGuestKey,
  mintKey,
  type NamedKey,
  revokeKey,
  rotateKey,
} from '../../../ingress/authentication/change-keys.ts';
import { ApiError, errorHeaders } from '../../../shared/errors.ts';
import type { Decision } from '../../../shared/store/documents.ts';
import type { Account, GuestSecrets } from '../../../shared/store/records/account.ts';
import { defaultKeyOf, type Key, type NewKey } from '../../../shared/store/records/key.ts';
import { defaultKeyFrom, endedKeysOf } from '../../shared/store/store-contract.ts';

const t1 = new Date('2026-01-01');
const t2 = new Date('2026-01-02');
const t3 = new Date('2026-01-03');

const mint = (key: NewKey, plan = 'free') => mintKey({ account: 'user:ann', plan, key });
const named = (key: NewKey): NamedKey => ({ hashes: ['under another pepper', key.hash] });
const shown = (key: NewKey): NamedKey => ({ display: key.display });

test('none, mint: a key is active under the requested plan, and the account is created', (t) => {
  const key = keyNamed('one');
  const { result, next } = mint(key)(undefined);
  const account = {
    id: 'user:ann',
    plan: 'free',
    suspended: false,
    overageEnabled: false,
    topUpsMade: [],
    version: 1,
    createdAt: t1,
    keys: [defaultKeyFrom(key)],
    keysCreated: { day: '2026-01-01', count: 1 },
    changes: [{ at: t1, by: 'user:ann', keyMinted: 'key_one' }],
  };
  t.deepEqual(result, { minted: true, account });
  t.deepEqual(next, account);
});

test('active, mint: the same key stays active, and nothing changes, for any requested plan', (t) => {
  const account = mintedWith(keyNamed('one'));
  t.deepEqual(mint(keyNamed('two', t2), 'pro')(account), { result: { minted: false, account } });
});

test('active, rotate: the old key is rotated and a new one is active, on the plan of the account', (t) => {
  const [old, key] = [keyNamed('one'), keyNamed('two', t2)];
  for (const name of [named(old), shown(old)]) {
    const account = { ...mintedWith(old), plan: 'pro', suspended: true };
    const { result, next } = rotateKey({ named: name, key })(account);
    t.deepEqual(next, {
      ...account,
      version: 2,
      keys: [
        { ...defaultKeyFrom(key), replaced: ['key_one'] },
        { ...endedFrom(old), plan: 'pro', state: 'rotated', endedAt: t2 },
      ],
      keysCreated: { day: '2026-01-02', count: 1 },
      changes: [{ at: t2, by: 'user:ann', keyRotated: { from: 'key_one', to: 'key_two' } }, ...account.changes],
    });
    t.is(result, next);
  }
});

test('active, revoke: the key is revoked, and none replaces it', (t) => {
  const old = keyNamed('one');
  for (const name of [named(old), shown(old)]) {
    const account = { ...mintedWith(old), plan: 'pro' };
    const { result, next } = revokeKey({ named: name, at: t2 })(account);
    t.deepEqual(next, {
      ...account,
      version: 2,
      keys: [{ ...endedFrom(old), plan: 'pro', state: 'revoked', endedAt: t2 }],
      changes: [{ at: t2, by: 'user:ann', keyRevoked: 'key_one' }, ...account.changes],
    });
    t.is(result, next);
  }
});

test('a mint after a revocation gives a new key with a new id, on the plan of the account', (t) => {
  const revoked = nextOf(revokeKey({ named: named(keyNamed('one')), at: t2 })(mintedWith(keyNamed('one'))));
  const { result, next } = mint(keyNamed('two', t3), 'free')({ ...revoked, plan: 'pro' });
  t.true(result.minted);
  t.like(next, { plan: 'pro', version: 3, createdAt: t1 });
  t.deepEqual(next?.keys, [defaultKeyFrom(keyNamed('two', t3)), ...revoked.keys]);
});

test('any other named key is refused in the same way, and nothing changes', (t) => {
  const [rotated, revoked, active, other] = [keyNamed('one'), keyNamed('two'), keyNamed('three'), keyNamed('four')];
  const history = historyOf(rotated, revoked);
  const names = [rotated, revoked, other].flatMap((key) => [named(key), shown(key)]);
  const never: NamedKey[] = [{ hashes: [] }, { hashes: [active.display] }, { display: active.hash }, { display: '' }];
  for (const account of [undefined, history, nextOf(mint(active)(history))]) {
    for (const name of [
      ...names,
      ...never,
      ...(defaultKeyOf(account) === undefined ? [named(active), shown(active)] : []),
    ]) {
      t.deepEqual(rotateKey({ named: name, key: keyNamed('five') })(account), { result: undefined });
      t.deepEqual(revokeKey({ named: name, at: t3 })(account), { result: undefined });
    }
  }
});

test('a further key of the account is refused with the routes that change it, and nothing changes', (t) => {
  const [active, further, replaced] = [keyNamed('one'), keyNamed('two'), keyNamed('three')];
  const keys: Key[] = [
    defaultKeyFrom(active),
    { ...further, name: 'ci', isDefault: false, state: 'active' },
    { ...replaced, name: 'old', isDefault: false, state: 'rotated', endsAt: t3 },
  ];
  const account = { ...mintedWith(active), keys };
  const changes = [
    (key: NamedKey) => rotateKey({ named: key, key: keyNamed('five') })(account),
    (key: NamedKey) => revokeKey({ named: key, at: t3 })(account),
  ];
  for (const change of changes) {
    for (const name of [named(further), shown(further)]) {
      const error = t.throws(() => change(name), { instanceOf: ApiError });
      t.is(error?.code, 'INVALID_KEY');
      t.regex(error?.message ?? '', /further key.*POST \/v1\/keys\/key_two\/rotate and DELETE \/v1\/keys\/key_two/);
    }
    t.deepEqual(change(named(replaced)), { result: undefined }, 'a key that was rotated away');
  }
});

test('a key that ends keeps its last use; the last use of an earlier key is not taken over', (t) => {
  const [one, two] = [keyNamed('one'), keyNamed('two', t2)];
  const used = { ...mintedWith(one), keys: [{ ...defaultKeyFrom(one), lastUsedAt: t2 }] };
  const rotated = nextOf(rotateKey({ named: named(one), key: two })(used));
  t.deepEqual(endedKeysOf(rotated)[0]?.lastUsedAt, t2);
  const revoked = nextOf(revokeKey({ named: named(two), at: t3 })(rotated));
  t.false('lastUsedAt' in (endedKeysOf(revoked)[0] ?? {}));
});

test('the last 100 ended keys and the last 200 changes are kept, newest first', (t) => {
  let account = mintedWith(keyNamed('0'));
  for (let index = 1; index <= 250; index += 1) {
    account = nextOf(rotateKey({ named: shown(keyNamed(String(index - 1))), key: keyNamed(String(index)) })(account));
    t.is(account.version, index + 1);
  }
  const newest = (count: number) => Array.from({ length: count }, (_, index) => `key_${249 - index}`);
  t.deepEqual(
    endedKeysOf(account).map(({ id }) => id),
    newest(100),
  );
  t.deepEqual(
    account.changes.map(({ keyRotated }) => keyRotated?.from),
    newest(200),
  );
});

test('an account creates at most 1,000 keys on one day, however it creates them, and the error says when the next day begins', (t) => {
  const active = keyNamed('one');
  const later = (name: string, ms = 1_000) => keyNamed(name, new Date(t1.getTime() + ms));
  const further = (account: Account, key: NewKey) =>
    createKey({ account: account.id, plan: 'free', key, fields: { name: 'a program' } })(account);
  const creations: ((account: Account, key: NewKey) => Decision<Account, unknown>)[] = [
    further,
    (account, key) => mint(key)({ ...account, keys: [] }),
    (account, key) => rotateKey({ named: named(active), key })(account),
    (account, key) => rotateKey({ named: { id: active.id }, key, graceMs: 60_000 })(account),
  ];
  const after = (count: number) => ({ ...mintedWith(active), keysCreated: { day: '2026-01-01', count } });
  for (const create of creations) {
    t.deepEqual(nextOf(create(after(999), later('two'))).keysCreated, { day: '2026-01-01', count: 1_000 });
    const error = t.throws(() => create(after(1_000), later('two')), { instanceOf: ApiError });
    const waitMs = t2.getTime() - t1.getTime() - 1_000;
    t.like(error, { code: 'rate_limit_exceeded', fields: { type: 'settings_limit', retry_after_ms: waitMs } });
    t.is(error && errorHeaders(error)['x-should-retry'], 'false');
    t.throws(() => create(after(1_000), later('two', 86_399_999)));
    t.deepEqual(nextOf(create(after(1_000), later('two', 86_400_000))).keysCreated, { day: '2026-01-02', count: 1 });
  }
  t.is(mint(later('two'))(after(1_000)).next, undefined, 'a repeated mint creates none');
  t.is(
    defaultKeyOf(nextOf(revokeKey({ named: named(active), at: t1 })(after(1_000)))),
    undefined,
    'keys can still be ended',
  );
  const nextDay = nextOf(further(after(1_000), keyNamed('two', t2)));
  t.is(nextOf(further(nextDay, later('three'))).keysCreated?.count, 2, 'by a clock that is still in the day before');
});

const seconds = (at: Date) => at.getTime() / 1_000;

test('a new device gets its key, and the secrets used are recorded', (t) => {
  const key = keyNamed('one');
  const { result, next } = mintGuest(key)(undefined);
  t.deepEqual(next, {
    id: 'device:1',
    plan: 'guest-device',
    suspended: false,
    overageEnabled: false,
    topUpsMade: [],
    version: seconds(t1) + 1,
    createdAt: t1,
    guest: { secret: 'first', pepper: 'p' },
    keys: [defaultKeyFrom(key)],
    changes: [{ at: t1, by: 'device:1', keyMinted: 'key_one' }],
  });
  t.is(next, result);
});

test('a device that returns after its removal repeats no earlier version', (t) => {
  const before = nextOf(mintGuest(keyNamed('one'))(undefined));
  const changed = nextOf(mintGuest(keyNamed('two', t2), 'second', () => false)(before));
  const later = new Date(t2.getTime() + 62 * 86_400_000);
  t.true(nextOf(mintGuest(keyNamed('three', later))(undefined)).version > changed.version);
});

test('a repeated mint for a device has no effect while the secrets of its key are in use', (t) => {
  const device = nextOf(mintGuest(keyNamed('one'))(undefined));
  const asked: GuestSecrets[] = [];
  const inUse = (guest: GuestSecrets) => asked.push(guest) > 0;
  t.deepEqual(mintGuest(keyNamed('two', t2), 'second', inUse)(device), { result: device });
  t.deepEqual(asked, [{ secret: 'first', pepper: 'p' }]);
});

test('removed secrets end the key that was made with them', (t) => {
  const device = { ...nextOf(mintGuest(keyNamed('one'))(undefined)), plan: 'pro', suspended: true };
  const key = keyNamed('two', t2);
  const next = nextOf(mintGuest(key, 'second', () => false)(device));
  t.like(next, { plan: 'pro', suspended: true, version: seconds(t1) + 2, guest: { secret: 'second', pepper: 'p' } });
  const ended: Key = { ...endedFrom(keyNamed('one')), plan: 'pro', state: 'rotated', endedAt: t2 };
  t.deepEqual(next.keys, [defaultKeyFrom(key), ended]);
  t.deepEqual(next.changes[0], { at: t2, by: 'device:1', keyMinted: 'key_two' });
});

test('a removed pepper gives the same key a new hash, and no key ends', (t) => {
  const device = nextOf(mintGuest(keyNamed('one'))(undefined));
  const { guest, ...offered } = { ...keyNamed('two', t2), guest: { secret: 'first', pepper: 'q' } };
  const decide = mintGuestKey({ account: 'device:1', plan: 'guest-device', key: offered, guest }, () => false);
  const next = nextOf(decide(device));
  t.deepEqual(next.keys, [{ ...defaultKeyFrom(keyNamed('one')), hash: offered.hash }]);
  t.like(next, { guest, version: seconds(t1) + 2 });
});

test('no decision mutates its input account', (t) => {
  const [one, two] = [keyNamed('one'), keyNamed('two')];
  const keys = [{ ...defaultKeyFrom(one), lastUsedAt: t1 }];
  const account = { ...mintedWith(one), guest: { secret: 'first', pepper: 'p' }, keys };
  const before = structuredClone(account);
  deepFreeze(account);
  nextOf(rotateKey({ named: named(one), key: two })(account));
  nextOf(revokeKey({ named: named(one), at: t2 })(account));
  nextOf(mintGuest(two, 'second', () => false)(account));
  t.is(mint(two)(account).next, undefined);
  t.deepEqual(account, before);
});

function keyNamed(name: string, createdAt = t1): NewKey {
  return { id: `key_${name}`, hash: `hash of ${name}`, display: `svc_${name}`, createdAt };
}

function endedFrom(key: NewKey): Key {
  const { hash: _, ...ended } = defaultKeyFrom(key);
  return ended;
}

function mintedWith(key: NewKey): Account {
  return nextOf(mint(key)(undefined));
}

/** An account without an active key: one was rotated, the other revoked. */
function historyOf(rotated: NewKey, revoked: NewKey): Account {
  const second = nextOf(rotateKey({ named: named(rotated), key: revoked })(mintedWith(rotated)));
  return nextOf(revokeKey({ named: named(revoked), at: t2 })(second));
}

function mintGuest(key: NewKey, secret = 'first', inUse: (guest: GuestSecrets) => boolean = () => true) {
  const guest = { secret, pepper: 'p' };
  return mintGuestKey({ account: 'device:1', plan: 'guest-device', key, guest }, inUse);
}

function nextOf(decision: Decision<Account, unknown>): Account {
  if (decision.next === undefined) throw new Error('no change is expected');
  return decision.next;
}

function deepFreeze(value: object): void {
  for (const part of Object.values(value)) if (typeof part === 'object' && part !== null) deepFreeze(part);
  Object.freeze(value);
}
