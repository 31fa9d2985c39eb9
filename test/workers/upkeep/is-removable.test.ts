import test from 'ava';
import type { Account } from '../../../shared/store/accounts/account.ts';
import { isRemovable } from '../../../workers/upkeep/remove-unused-devices.ts';

const since = new Date('2026-03-01T00:00:00Z');
const before = new Date(since.getTime() - 1);
const key = {
  id: 'key_1',
  hash: 'hash',
  display: 'svc_000000',
  name: 'default',
  isDefault: true,
  ...{ state: 'active' as const, createdAt: before },
};
const device: Account = {
  id: 'device:1',
  plan: 'guest-device',
  suspended: false,
  overageEnabled: false,
  topUpsMade: [],
  version: 1,
  createdAt: before,
  keys: [],
  changes: [{ at: before, by: 'device:1', keyMinted: 'key_1' }],
};
const used = (lastUsedAt: Date) => ({ keys: [{ ...key, lastUsedAt }] });
const operator = { at: before, by: 'user:olga' };

test('a device is removable if it was neither created nor used since then', (t) => {
  t.true(isRemovable(device, since));
  t.true(isRemovable({ ...device, ...used(before) }, since));
  t.true(isRemovable({ ...device, changes: [] }, since), 'one from before changes were recorded');
});

const kept: [title: string, more: Partial<Account>][] = [
  ['created since then', { createdAt: since }],
  ['used since then', used(since)],
  ['given a new key since then', { changes: [{ at: since, by: 'device:1', keyMinted: 'key_2' }] }],
  ['suspended', { suspended: true }],
  ['on another plan', { plan: 'pro' }],
  ['with overage', { overageEnabled: true }],
  ['with a top-up', { topUpsMade: [{ id: 'a', tokens: 1 }] }],
  [
    'suspended once, and resumed',
    {
      changes: [
        { ...operator, suspended: false },
        { ...operator, suspended: true },
      ],
    },
  ],
  ['no device', { id: 'user:1', changes: [] }],
];

for (const [title, more] of kept) {
  test(`a device is kept: ${title}`, (t) => t.false(isRemovable({ ...device, ...more }, since)));
}
