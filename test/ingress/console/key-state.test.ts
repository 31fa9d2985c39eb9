import test from 'ava';
import {
  isEnding,
  lastInGrace,
  possibleChanges,
  restOf,
  shownState,
  sortKeys,
  usableKeys,
  wasUsedInTheLastDay,
} from '../../../ingress/console/keys/key-state.ts';
import type { Key } from '../../../ingress/routes/present-key.ts';

const seconds = 1_767_225_600;
const now = seconds * 1000;

const shown: Key = {
  id: 'key_01',
  object: 'key',
  name: 'a program',
  key: 'svc_abcdef****',
  default: false,
  purpose: null,
  state: 'active',
  created_at: seconds - 100,
  expires_at: null,
  valid_until: null,
  ended_at: null,
  last_used_at: null,
  endpoints: null,
  models: null,
  allowed_ips: null,
  limits: null,
  files: 'all',
  usage: { month: '2026-01', requests: 0, tokens: 0 },
};
const rotated: Key = { ...shown, state: 'rotated', valid_until: seconds + 60 };
const stateAndChanges = (key: Key, at = now) => [shownState(key, at), possibleChanges(key, at)];

test('a key shows its end in the millisecond in which it comes, and offers what the API can still change', (t) => {
  t.deepEqual(stateAndChanges(shown), ['active', ['edit', 'rotate', 'revoke']]);
  t.deepEqual(stateAndChanges({ ...shown, default: true }), ['active', ['rotate', 'revoke']]);

  const expiring = { ...shown, expires_at: seconds };
  t.deepEqual(stateAndChanges(expiring, now - 1), ['active', ['edit', 'rotate', 'revoke']]);
  t.deepEqual(stateAndChanges(expiring), ['expired', ['edit', 'revoke']]);
  t.deepEqual(stateAndChanges({ ...expiring, state: 'expired' }), ['expired', ['edit', 'revoke']]);

  t.deepEqual(stateAndChanges(rotated, now + 59_999), ['in grace', ['edit', 'revoke']]);
  t.deepEqual(stateAndChanges(rotated, now + 60_000), ['rotated', []]);
});

test('the key of the console can only be revoked, and is none that a program can use', (t) => {
  const console: Key = { ...shown, purpose: 'console', expires_at: seconds + 3_600 };
  t.deepEqual(stateAndChanges(console), ['active', ['revoke']]);
  t.deepEqual(usableKeys([console, shown, rotated, { ...shown, state: 'revoked', ended_at: seconds - 1 }], now), [
    shown,
    rotated,
  ]);
});

test('if all keys end with their grace, the one that ends last is known', (t) => {
  const later: Key = { ...rotated, id: 'key_later', valid_until: seconds + 120 };
  const revoked: Key = { ...shown, state: 'revoked', ended_at: seconds - 1 };
  t.is(lastInGrace([rotated, later, revoked], now), later);
  t.is(lastInGrace([rotated, shown], now), undefined);
  t.is(lastInGrace([revoked], now), undefined);
  t.is(lastInGrace([rotated, { ...shown, purpose: 'console' }], now), rotated);
});

test('an ended key offers no change', (t) => {
  for (const state of ['rotated', 'revoked', 'expired'] as const) {
    t.deepEqual(stateAndChanges({ ...rotated, state, ended_at: seconds - 1 }), [state, []]);
  }
});

test('the rest of a key in its grace ends with the key itself', (t) => {
  t.is(restOf(shown, now), undefined);
  t.is(restOf(rotated, now), 60_000);
  t.is(restOf({ ...rotated, expires_at: seconds + 5 }, now), 5_000);
  t.is(shownState({ ...rotated, expires_at: seconds + 5 }, now + 5_000), 'rotated');
});

test('a key was used in the last day until 24 hours after its last use', (t) => {
  t.false(wasUsedInTheLastDay(shown, now));
  const used = { ...shown, last_used_at: seconds };
  t.true(wasUsedInTheLastDay(used, now + 86_399_999));
  t.false(wasUsedInTheLastDay(used, now + 86_400_000));
});

test('what is shown of a key changes while it has at most seven days left', (t) => {
  t.false(isEnding(shown, now));
  t.true(isEnding(rotated, now));
  t.false(isEnding(rotated, now + 60_000));
  t.false(isEnding({ ...rotated, ended_at: seconds }, now));
  t.deepEqual(
    [604_800, 604_801].map((left) => isEnding({ ...shown, expires_at: seconds + left }, now)),
    [true, false],
  );
});

test('keys are sorted by name, a rotated key after its successor, and ended ones last', (t) => {
  const named = (id: string, fields: Partial<Key>): Key => ({ ...shown, id, ...fields });
  const sorted = sortKeys([
    named('earlier end', { name: 'a', state: 'revoked', ended_at: seconds - 2 }),
    named('later end', { name: 'b', state: 'revoked', ended_at: seconds - 1 }),
    named('ten', { name: 'program 10' }),
    named('old two', { name: 'program 2', state: 'rotated', valid_until: seconds + 60 }),
    named('new two', { name: 'program 2', created_at: seconds }),
    named('default', { name: 'default', default: true }),
    named('old default', { name: 'default', state: 'rotated', valid_until: seconds + 60 }),
  ]);
  t.deepEqual(
    sorted.map(({ id }) => id),
    ['default', 'old default', 'new two', 'old two', 'ten', 'later end', 'earlier end'],
  );
});
