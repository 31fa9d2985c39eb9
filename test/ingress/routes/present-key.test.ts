import test from 'ava';
import { createKey, keysOf, mintKey, revokeKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { presentDeveloperKeys, presentKey, presentShownKey } from '../../../ingress/routes/present-key.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import type { Decide } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import type { NewKey } from '../../../shared/store/records/key.ts';

const at = (seconds: number) => new Date(seconds * 1_000);
const keyNamed = (name: string, seconds: number): NewKey => ({
  ...{ id: `key_${name}`, hash: `hash of ${name}`, display: `svc_${name.padEnd(6, '0')}`, createdAt: at(seconds) },
});
const byAnn = { account: 'user:ann', plan: 'free' };

/** The account after these changes of it. */
function after(...changes: Decide<Account, unknown>[]): Account {
  const account = changes.reduce<Account | undefined>((known, decide) => decide(known).next, undefined);
  if (account === undefined) throw new Error('each of them changes something');
  return account;
}

const shown = (account: Account, seconds: number) =>
  keysOf(account).map((key) => presentKey(key, { now: seconds * 1_000, month: '1970-01', usage: null }));
const toPro = changeSettings({ settings: { plan: 'pro' }, at: at(15), by: 'user:olga' });
const rotated = [
  mintKey({ ...byAnn, key: keyNamed('old', 0) }),
  createKey({ ...byAnn, key: keyNamed('ci', 5), fields: { name: 'ci' } }),
  rotateKey({ named: { id: 'key_old' }, key: keyNamed('new', 10), graceMs: 20_000 }),
  toPro,
];

test('a default key that was rotated with a grace has ended in the list of developer keys, and is valid in the list of all keys', (t) => {
  const account = after(...rotated);
  t.deepEqual(presentDeveloperKeys(account), [
    { id: 'key_new', key: 'svc_new000****', plan: 'pro', state: 'active', createdAt: at(10).toISOString() },
    {
      id: 'key_old',
      key: 'svc_old000****',
      plan: 'free',
      state: 'rotated',
      createdAt: at(0).toISOString(),
      endedAt: at(10).toISOString(),
    },
  ]);
  t.like(shown(account, 20), {
    length: 3,
    0: { id: 'key_new', name: 'default', default: true, state: 'active', valid_until: null },
    1: { id: 'key_ci', name: 'ci', default: false, state: 'active' },
    2: { id: 'key_old', name: 'default', default: false, state: 'rotated', valid_until: 30, ended_at: null },
  });
  t.like(shown(account, 30)[2], { state: 'rotated', valid_until: null, ended_at: 30 }, 'its grace is over');
});

test('a default key that was revoked in its grace was rotated for the one list, and revoked for the other', (t) => {
  const account = after(...rotated, revokeKey({ named: { id: 'key_old' }, at: at(25) }));
  t.like(presentDeveloperKeys(account)[1], {
    id: 'key_old',
    plan: 'free',
    state: 'rotated',
    endedAt: at(10).toISOString(),
  });
  t.like(shown(account, 26)[2], { id: 'key_old', state: 'revoked', valid_until: null, ended_at: 25 });
});

test('developer keys are listed newest first, at most 100, and further keys are not among them', (t) => {
  let account = after(...rotated);
  for (let index = 0; index < 120; index += 1) {
    const graceMs = index % 2 === 0 ? 0 : 1_000_000;
    const [named, key] = [{ id: keysOf(account)[0]?.id ?? '' }, keyNamed(String(index), 40 + index)];
    account = rotateKey({ named, key, graceMs })(account).next ?? account;
  }
  const ids = presentDeveloperKeys(account).map((key) => (key as { id: string }).id);
  t.deepEqual(
    ids,
    Array.from({ length: 100 }, (_, index) => `key_${119 - index}`),
  );
});

test('operators see a key as its account does, also its end, without its settings and its usage', (t) => {
  const fields = { name: 'ci', expiresAt: at(50), models: ['small-chat'] };
  const account = after(...rotated, createKey({ ...byAnn, key: keyNamed('soon', 12), fields }));
  for (const seconds of [20, 60]) {
    const keys = keysOf(account);
    t.is(keys.length, 4);
    for (const key of keys) {
      const { object, endpoints, models, allowed_ips, limits, files, usage, ...rest } = presentKey(key, {
        ...{ now: seconds * 1_000, month: '1970-01', usage: { requests: 1, chargedTokens: 5 } },
      });
      t.deepEqual(presentShownKey(key, at(seconds)), rest);
    }
  }
  const soon = (seconds: number) => shown(account, seconds).find(({ id }) => id === 'key_soon');
  t.like(soon(20), { state: 'active', expires_at: 50, ended_at: null });
  t.like(soon(50), { state: 'expired', expires_at: 50, ended_at: null });
});

test('of developer keys that ended at the same time, the newer one comes first', (t) => {
  const rotate = (from: string, to: string) => rotateKey({ named: { id: `key_${from}` }, key: keyNamed(to, 10) });
  const account = after(mintKey({ ...byAnn, key: keyNamed('one', 0) }), rotate('one', 'two'), rotate('two', 'three'));
  t.like(presentDeveloperKeys(account), { 0: { id: 'key_three' }, 1: { id: 'key_two' }, 2: { id: 'key_one' } });
});
