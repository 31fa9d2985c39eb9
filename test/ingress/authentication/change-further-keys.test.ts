import test from 'ava';
import {
  changeKey,
  createConsoleKey,
  createKey,
  endedWith,
  findKey,
  keysOf,
  mintKey,
  revokeKey,
  rotateKey,
} from '../../../ingress/authentication/change-keys.ts';
import { beginRemoval } from '../../../shared/account-changes/remove-account.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Decision } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import {
  defaultKeyOf,
  isDefaultKey,
  isLive,
  type Key,
  type KeyFields,
  type NewKey,
} from '../../../shared/store/records/key.ts';
import { defaultKeyFrom, endedKeysOf } from '../../shared/store/store-contract.ts';

const at = (seconds: number) => new Date(seconds * 1_000);

function keyNamed(name: string, seconds = 0): NewKey {
  return { id: `key_${name}`, hash: `hash of ${name}`, display: `svc_${name}`, createdAt: at(seconds) };
}

const furtherNamed = (name: string): Key => ({ ...keyNamed(name), name, isDefault: false, state: 'active' });
const create = (name: string, seconds = 0, fields: Partial<KeyFields> = {}) =>
  createKey({ account: 'user:ann', plan: 'free', key: keyNamed(name, seconds), fields: { name, ...fields } });

function nextOf<Result>({ next }: Decision<Account, Result>): Account {
  if (next === undefined) throw new Error('nothing changed');
  return next;
}

const created = (name: string, fields: Partial<KeyFields> = {}) => nextOf(create(name, 0, fields)(undefined));
const statesOf = (account: Account) =>
  keysOf(account).map((key) => [key.id, isDefaultKey(key) ? 'default' : key.state]);

test('a key is created beside the default key, and the account if it is unknown', (t) => {
  const account = created('one', { models: ['small-chat'] });
  t.like(account, { id: 'user:ann', plan: 'free', version: 1 });
  t.deepEqual(account.keys, [{ ...furtherNamed('one'), models: ['small-chat'] }]);
  t.deepEqual(account.changes, [{ by: 'user:ann', at: at(0), keyMinted: 'key_one' }]);

  const minted = nextOf(mintKey({ account: 'user:bob', plan: 'pro', key: keyNamed('default') })(undefined));
  const both = nextOf(create('two', 5)(minted));
  t.like(both, { plan: 'pro', version: 2 });
  t.deepEqual(statesOf(both), [
    ['key_default', 'default'],
    ['key_two', 'active'],
  ]);
});

test('a change replaces fields and removes those that are undefined; one without effect changes nothing', (t) => {
  const account = created('one', { models: ['small-chat'], limits: { requestsPerMinute: 1, tokensPerMinute: 2 } });
  const change = (fields: Partial<KeyFields>) => changeKey({ id: 'key_one', fields, at: at(1) })(account);
  const next = nextOf(change({ models: undefined, allowedIps: ['::1'], name: 'other' }));
  t.deepEqual(next.keys, [
    {
      ...furtherNamed('one'),
      name: 'other',
      limits: { requestsPerMinute: 1, tokensPerMinute: 2 },
      allowedIps: ['::1'],
    },
  ]);
  t.like(next, { version: 2, changes: { 0: { keyChanged: 'key_one' } } });
  const otherOrder = { limits: { tokensPerMinute: 2, requestsPerMinute: 1 } };
  for (const same of [{}, { name: 'one' }, { models: ['small-chat'] }, { expiresAt: undefined }, otherOrder]) {
    t.deepEqual(change(same), { result: account });
  }
});

test('a change is of one key alone, and the default key has no settings to change', (t) => {
  const minted = nextOf(mintKey({ account: 'user:ann', plan: 'free', key: keyNamed('default') })(created('one')));
  const both = nextOf(create('two')(minted));
  const next = nextOf(changeKey({ id: 'key_two', fields: { name: 'other' }, at: at(1) })(both));
  const renamed = both.keys.map((key) => (key.id === 'key_two' ? { ...key, name: 'other' } : key));
  t.deepEqual(next.keys, renamed);
  const ofDefault = changeKey({ id: 'key_default', fields: { name: 'other' }, at: at(1) });
  t.throws(() => ofDefault(both), { code: 'CONFLICT', message: /no settings/ });
});

test('a key knows since which month it has had a limit of the month, without a break', (t) => {
  const may = (day: number) => Date.UTC(2030, 4, day) / 1_000;
  const june = Date.UTC(2030, 5, 1) / 1_000;
  const monthsOf = (account: Account) => account.keys.map(({ limits }) => limits?.monthLimitedSince);
  const change = (account: Account, seconds: number, limits: KeyFields['limits']) =>
    nextOf(changeKey({ id: 'key_one', fields: { limits }, at: at(seconds) })(account));
  const limited = nextOf(create('one', may(1), { limits: { tokensPerMonth: 5 } })(undefined));
  t.deepEqual(monthsOf(limited), ['2030-05']);
  const raised = change(limited, june, { tokensPerMonth: 6 });
  t.deepEqual(monthsOf(raised), ['2030-05']);
  const same = changeKey({ id: 'key_one', fields: { limits: { tokensPerMonth: 6 } }, at: at(june) })(raised);
  t.deepEqual(same, { result: raised });
  const lifted = change(raised, june, { requestsPerMinute: 1 });
  t.deepEqual(monthsOf(lifted), [undefined]);
  t.deepEqual(monthsOf(change(lifted, june, { tokensPerMonth: 6 })), ['2030-06']);
});

test('a rotation with grace leaves both keys, the new one with the settings of the old', (t) => {
  const account = created('one', { limits: { tokensPerMinute: 5 } });
  const next = nextOf(rotateKey({ named: { id: 'key_one' }, key: keyNamed('two', 10), graceMs: 60_000 })(account));
  const limits = { tokensPerMinute: 5 };
  t.deepEqual(next.keys, [
    { ...furtherNamed('one'), ...keyNamed('two', 10), limits, replaced: ['key_one'] },
    { ...furtherNamed('one'), limits, state: 'rotated', rotatedAt: at(10), endsAt: at(70) },
  ]);
  t.like(next.changes[0], { keyRotated: { from: 'key_one', to: 'key_two' } });
});

test('a key knows the last twenty keys that it has replaced, and ends with those that are no longer valid', (t) => {
  let account = created('0');
  for (let number = 1; number <= 25; number++) {
    const graceMs = number === 24 ? 60_000 : 0;
    const rotation = { named: { id: `key_${number - 1}` }, key: keyNamed(String(number), number), graceMs };
    account = nextOf(rotateKey(rotation)(account));
  }
  const replaced = Array.from({ length: 20 }, (_, index) => `key_${24 - index}`);
  t.deepEqual(account.keys.find(({ id }) => id === 'key_25')?.replaced, replaced);

  account = nextOf(revokeKey({ named: { id: 'key_25' }, at: at(30) })(account));
  t.deepEqual(endedKeysOf(account)[0]?.replaced, replaced);
  const ended = ['key_25', ...replaced.filter((id) => id !== 'key_23')];
  t.deepEqual(endedWith(account, 'key_25', at(30)), ended, 'one is in its grace');
  t.deepEqual(endedWith(account, 'key_25', at(24 + 60)), ['key_25', ...replaced]);
  t.deepEqual(endedWith(account, 'key_0', at(30)), ['key_0']);

  const minted = nextOf(mintKey({ account: 'user:bob', plan: 'pro', key: keyNamed('default') })(undefined));
  const revoked = nextOf(revokeKey({ named: { id: 'key_default' }, at: at(1) })(minted));
  t.deepEqual(endedWith(revoked, 'key_default', at(1)), ['key_default']);
});

test('a default key knows the keys that it has replaced by either route, also after it has ended', (t) => {
  let account = nextOf(mintKey({ account: 'user:bob', plan: 'pro', key: keyNamed('0') })(undefined));
  account = nextOf(rotateKey({ named: { id: 'key_0' }, key: keyNamed('1', 1), graceMs: 60_000 })(account));
  account = nextOf(rotateKey({ named: { display: 'svc_1' }, key: keyNamed('2', 2) })(account));
  account = nextOf(rotateKey({ named: { id: 'key_2' }, key: keyNamed('3', 3), graceMs: 0 })(account));
  t.deepEqual(defaultKeyOf(account)?.replaced, ['key_2', 'key_1', 'key_0']);

  const revoked = nextOf(revokeKey({ named: { id: 'key_3' }, at: at(4) })(account));
  t.deepEqual(endedWith(revoked, 'key_3', at(4)), ['key_3', 'key_2', 'key_1'], 'one is in its grace');
  t.deepEqual(endedWith(revoked, 'key_3', at(61)), ['key_3', 'key_2', 'key_1', 'key_0']);
  t.deepEqual(endedWith(revoked, 'key_2', at(61)), ['key_2', 'key_1', 'key_0']);

  for (let number = 4; number <= 30; number++) {
    account = nextOf(
      rotateKey({ named: { display: `svc_${number - 1}` }, key: keyNamed(String(number), 100) })(account),
    );
  }
  const { replaced = [] } = defaultKeyOf(account) ?? {};
  t.deepEqual([replaced.length, replaced[0]], [20, 'key_29']);
  const again = nextOf(mintKey({ account: 'user:bob', plan: 'pro', key: keyNamed('new') })(revoked));
  t.is(defaultKeyOf(again)?.replaced, undefined, 'a key that was minted has replaced none');
});

test('a rotation without grace ends the key', (t) => {
  const next = nextOf(rotateKey({ named: { id: 'key_one' }, key: keyNamed('two', 10), graceMs: 0 })(created('one')));
  t.deepEqual(statesOf(next), [
    ['key_two', 'active'],
    ['key_one', 'rotated'],
  ]);
  t.like(endedKeysOf(next)[0], { id: 'key_one', state: 'rotated', endedAt: at(10) });
  t.false('hash' in (endedKeysOf(next)[0] ?? {}));
});

test('the default key gets a successor, and is a further key until its grace is over', (t) => {
  const minted = nextOf(mintKey({ account: 'user:ann', plan: 'free', key: keyNamed('old') })(undefined));
  const next = nextOf(rotateKey({ named: { id: 'key_old' }, key: keyNamed('new', 10), graceMs: 1_000 })(minted));
  t.deepEqual(next.keys, [
    { ...defaultKeyFrom(keyNamed('new', 10)), replaced: ['key_old'] },
    { ...defaultKeyFrom(keyNamed('old')), plan: 'free', state: 'rotated', rotatedAt: at(10), endsAt: at(11) },
  ]);
  t.deepEqual(statesOf(next), [
    ['key_new', 'default'],
    ['key_old', 'rotated'],
  ]);
  const later = nextOf(create('other', 11)(next));
  t.deepEqual(statesOf(later), [
    ['key_new', 'default'],
    ['key_other', 'active'],
    ['key_old', 'rotated'],
  ]);
  t.like(endedKeysOf(later), { length: 1, 0: { id: 'key_old', rotatedAt: at(10), endedAt: at(11) } });
});

test('a key ends once its grace is over, at the next change of any key; not a moment earlier', (t) => {
  const account = nextOf(
    rotateKey({ named: { id: 'key_one' }, key: keyNamed('two', 10), graceMs: 1_000 })(created('one')),
  );
  const change = (seconds: number) =>
    nextOf(changeKey({ id: 'key_two', fields: { name: 'x' }, at: at(seconds) })(account));
  t.is(endedKeysOf(change(10.999)).length, 0);
  t.like(endedKeysOf(change(12))[0], { id: 'key_one', state: 'rotated', endedAt: at(11) });
  t.is(endedKeysOf(change(11)).length, 1);
});

test('a key that was rotated, revoked or has expired is not rotated; one that has ended is not changed', (t) => {
  const rotated = nextOf(
    rotateKey({ named: { id: 'key_one' }, key: keyNamed('two', 10), graceMs: 5_000 })(created('one')),
  );
  const revoked = nextOf(revokeKey({ named: { id: 'key_one' }, at: at(11) })(rotated));
  t.like(endedKeysOf(revoked)[0], { id: 'key_one', state: 'revoked' });
  const expired = created('one', { expiresAt: at(5) });
  const rotate = rotateKey({ named: { id: 'key_one' }, key: keyNamed('three', 12), graceMs: 0 });
  for (const account of [rotated, revoked, expired]) t.throws(() => rotate(account), { code: 'CONFLICT' });
  const change = (account: Account, seconds: number) =>
    changeKey({ id: 'key_one', fields: { name: 'x' }, at: at(seconds) })(account);
  t.is(nextOf(change(rotated, 14)).keys[1]?.name, 'x');
  t.throws(() => change(rotated, 15), { code: 'CONFLICT' });
  t.throws(() => change(revoked, 12), { code: 'CONFLICT' });
  t.is(nextOf(change(expired, 12)).keys[0]?.name, 'x');
});

test('a revocation of any key ends it; of one that has ended, it changes nothing', (t) => {
  const minted = nextOf(mintKey({ account: 'user:ann', plan: 'free', key: keyNamed('default') })(created('one')));
  for (const id of ['key_default', 'key_one']) {
    const next = nextOf(revokeKey({ named: { id }, at: at(9) })(minted));
    t.like(findKey(next, id), { state: 'revoked', endedAt: at(9), hash: undefined });
    t.deepEqual(next.changes[0], { by: 'user:ann', at: at(9), keyRevoked: id });
    t.deepEqual(revokeKey({ named: { id }, at: at(10) })(next), { result: next });
  }
});

test('keys that have ended are listed latest first, whichever kind they were', (t) => {
  const minted = nextOf(mintKey({ account: 'user:ann', plan: 'free', key: keyNamed('default') })(created('one')));
  let account = nextOf(create('two')(minted));
  for (const [index, id] of ['key_one', 'key_default', 'key_two'].entries())
    account = nextOf(revokeKey({ named: { id }, at: at(9 + index) })(account));
  t.deepEqual(
    keysOf(account).map(({ id }) => id),
    ['key_two', 'key_default', 'key_one'],
  );
});

test('a key whose grace is over has ended: revoking it changes nothing', (t) => {
  const rotated = nextOf(
    rotateKey({ named: { id: 'key_one' }, key: keyNamed('two', 10), graceMs: 1_000 })(created('one')),
  );
  t.deepEqual(revokeKey({ named: { id: 'key_one' }, at: at(11) })(rotated), { result: rotated });
  t.like(nextOf(revokeKey({ named: { id: 'key_one' }, at: at(10.999) })(rotated)).keys.at(-1), {
    state: 'revoked',
  });
});

test('unknown keys, and keys of no account, change nothing', (t) => {
  for (const account of [undefined, created('one')]) {
    const id = 'key_other';
    t.deepEqual(changeKey({ id, fields: {}, at: at(1) })(account), { result: undefined });
    t.deepEqual(rotateKey({ named: { id }, key: keyNamed('two'), graceMs: 0 })(account), { result: undefined });
    t.deepEqual(revokeKey({ named: { id }, at: at(1) })(account), { result: undefined });
  }
});

test('a hundred further keys can be valid; those that have expired or ended do not count', (t) => {
  let account = created('0', { expiresAt: at(5) });
  for (let index = 1; index <= 99; index += 1) account = nextOf(create(String(index))(account));
  t.throws(() => create('100', 4)(nextOf(create('99b', 4)(account))), { code: 'CONFLICT' });
  account = nextOf(create('100', 5)(account));
  t.throws(() => create('101', 5)(account), { code: 'CONFLICT' });
  t.throws(() => rotateKey({ named: { id: 'key_1' }, key: keyNamed('x', 6), graceMs: 1 })(account), {
    code: 'CONFLICT',
  });
  account = nextOf(rotateKey({ named: { id: 'key_1' }, key: keyNamed('x', 6), graceMs: 0 })(account));
  t.throws(() => changeKey({ id: 'key_0', fields: { expiresAt: at(99) }, at: at(6) })(account), {
    code: 'CONFLICT',
  });
  account = nextOf(revokeKey({ named: { id: 'key_2' }, at: at(7) })(account));
  t.is(
    nextOf(changeKey({ id: 'key_0', fields: { expiresAt: at(99) }, at: at(8) })(account)).version,
    account.version + 1,
  );
});

test('of expired keys the last hundred can live again, and of ended ones the last hundred are listed', (t) => {
  let account = created('0', { expiresAt: at(1) });
  for (let index = 1; index <= 150; index += 1)
    account = nextOf(create(String(index), 2 * index, { expiresAt: at(2 * index + 1) })(account));
  t.is(account.keys.filter(isLive).length, 101);
  t.like(findKey(account, 'key_0'), { state: 'expired', endedAt: at(1), hash: undefined });
  for (let index = 60; index <= 149; index += 1)
    account = nextOf(revokeKey({ named: { id: `key_${index}` }, at: at(500) })(account));
  t.is(endedKeysOf(account).length, 100);
});

test('the default key has its own room: beside it a hundred further keys are valid, and a hundred of each kind that have ended are kept', (t) => {
  let account = nextOf(mintKey({ account: 'user:ann', plan: 'free', key: keyNamed('default') })(undefined));
  for (let index = 1; index <= 100; index += 1) account = nextOf(create(String(index))(account));
  t.throws(() => create('101')(account), { code: 'CONFLICT' });
  for (let index = 1; index <= 100; index += 1) {
    account = nextOf(revokeKey({ named: { id: `key_${index}` }, at: at(index) })(account));
  }
  account = nextOf(rotateKey({ named: { display: 'svc_default' }, key: keyNamed('next', 200) })(account));
  t.is(endedKeysOf(account).length, 101);
  t.like(endedKeysOf(account), { 0: { id: 'key_default' }, 1: { id: 'key_100' }, 100: { id: 'key_1' } });
});

const forConsole = (name: string, seconds = 0) =>
  createConsoleKey({ account: 'user:ann', plan: 'free', key: keyNamed(name, seconds) });

test('a key of the console ends in an hour, uses no files, and ends the one before it in the same change', (t) => {
  const first = nextOf(forConsole('one', 10)(created('mine')));
  t.like(findKey(first, 'key_one'), {
    name: 'console',
    purpose: 'console',
    files: 'none',
    state: 'active',
    expiresAt: at(3_610),
  });
  t.deepEqual(first.changes[0], { by: 'user:ann', at: at(10), keyMinted: 'key_one' });
  const second = nextOf(forConsole('two', 20)(first));
  t.deepEqual(second.changes[0], { by: 'user:ann', at: at(20), keyMinted: 'key_two', keyRevoked: 'key_one' });
  t.is(second.version, first.version + 1);
  t.deepEqual(statesOf(second), [
    ['key_mine', 'active'],
    ['key_two', 'active'],
    ['key_one', 'revoked'],
  ]);
  const third = nextOf(forConsole('three', 3_620)(second));
  t.like(findKey(third, 'key_two'), { state: 'expired', endedAt: at(3_620), hash: undefined });
  t.deepEqual(third.changes[0], { by: 'user:ann', at: at(3_620), keyMinted: 'key_three' });
  t.is(nextOf(forConsole('new')(undefined)).keys.length, 1, 'an account that was never used');
});

test('a key of the console is neither changed nor rotated, but revoked', (t) => {
  const account = nextOf(forConsole('one')(undefined));
  const fixed = { code: 'CONFLICT', message: /has no settings, and is not rotated/ };
  t.throws(() => changeKey({ id: 'key_one', fields: { expiresAt: at(9e9) }, at: at(1) })(account), fixed);
  t.throws(() => rotateKey({ named: { id: 'key_one' }, key: keyNamed('x', 1), graceMs: 1 })(account), fixed);
  t.is(findKey(nextOf(revokeKey({ named: { id: 'key_one' }, at: at(1) })(account)), 'key_one')?.state, 'revoked');
});

test('keys of the console have room of their own, are no keys of the 1,000 of a day, and push no other ended key out', (t) => {
  let account = nextOf(revokeKey({ named: { id: 'key_old' }, at: at(1) })(created('old')));
  for (let index = 1; index <= 100; index += 1) account = nextOf(create(String(index))(account));
  const { keysCreated } = account;
  for (let index = 0; index < 200; index += 1) account = nextOf(forConsole(`c${index}`, 2 + index)(account));
  t.deepEqual(account.keysCreated, keysCreated);
  t.is(account.keys.filter(isLive).length, 101);
  t.deepEqual(endedKeysOf(account).length, 21);
  t.like(findKey(account, 'key_old'), { state: 'revoked' });
  t.throws(() => create('101', 5)(account), { code: 'CONFLICT' });
});

test('an account creates at most 200 keys of the console on one day, and the error says when the next day begins', (t) => {
  const day = at(0).toISOString().slice(0, 10);
  const after = (count: number) => ({ ...created('mine'), consoleKeysCreated: { day, count } });
  t.deepEqual(nextOf(forConsole('c', 5)(after(199))).consoleKeysCreated, { day, count: 200 });
  const error = t.throws(() => forConsole('c', 5)(after(200)), { instanceOf: ApiError });
  const waitMs = Date.parse(day) + 86_400_000 - at(5).getTime();
  t.like(error, { code: 'rate_limit_exceeded', fields: { type: 'settings_limit', retry_after_ms: waitMs } });
  t.regex(error?.message ?? '', /200 keys of the console today/);
  const tomorrow = new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
  const nextDay = nextOf(forConsole('c', 5 + 86_400)(after(200)));
  t.deepEqual(nextDay.consoleKeysCreated, { day: tomorrow, count: 1 });
  t.like(nextOf(create('further', 5)(after(200))), { keysCreated: { day, count: 2 } });
  const removed = nextOf(beginRemoval({ plan: 'free', by: 'user:olga', at: at(6) })(after(200)));
  t.deepEqual(removed.consoleKeysCreated, { day, count: 200 }, 'also of an account that is removed');
});

test('a key whose grace was over long ago is listed by its end, and is not one of the expired keys', (t) => {
  let account = nextOf(create('two')(created('one', { expiresAt: at(30) })));
  account = nextOf(rotateKey({ named: { id: 'key_one' }, key: keyNamed('new', 10), graceMs: 100_000 })(account));
  for (let index = 0; index < 100; index += 1) {
    const createdAt = index < 50 ? 20 : 45;
    account = nextOf(create(`late ${index}`, createdAt, { expiresAt: at(createdAt + 1) })(account));
  }
  account = nextOf(changeKey({ id: 'key_two', fields: { name: 'x' }, at: at(50) })(account));
  t.is(findKey(account, 'key_one')?.state, 'rotated', 'it has ended by its own end, and keeps its grace');
  account = nextOf(revokeKey({ named: { id: 'key_two' }, at: at(109) })(account));
  account = nextOf(revokeKey({ named: { id: 'key_late 1' }, at: at(120) })(account));
  const ids = ['key_late 1', 'key_one', 'key_two'];
  t.deepEqual(
    endedKeysOf(account).flatMap(({ id }) => (ids.includes(id) ? id : [])),
    ids,
  );
});
