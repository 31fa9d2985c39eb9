import test from 'ava';
import { decodeTime } from 'ulid';
import type { Account, Change } from '../../../../shared/store/records/account.ts';
import {
  type AuditRecord,
  auditId,
  auditIdFor,
  newestRecord,
  pageOf,
  recordsOf,
} from '../../../../shared/store/records/audit-records.ts';

const at = new Date('2026-03-01T12:00:00.123Z');

function accountWith(changes: Change[], version = changes.length, id = 'user:ann'): Account {
  const stored = { plan: 'free', suspended: false, overageEnabled: false };
  return {
    id,
    version,
    changes,
    ...stored,
    createdAt: at,
    topUpsMade: [],
    keys: [],
  };
}

const suspended = (value: boolean): Change => ({ at, by: 'user:olga', suspended: value });
const minted: Change = { at, by: 'user:ann', keyMinted: 'key_1' };

test('an id is derived from time, version and account: equal for the same change, different for any other', (t) => {
  const idOf = (account: Account) => newestRecord(account)?.id ?? '';
  const id = idOf(accountWith([suspended(true)]));
  t.regex(id, auditId);
  t.is(decodeTime(id.slice('audit_'.length)), at.getTime());
  t.is(idOf(accountWith([{ ...suspended(true), origin: { address: '192.0.2.1', reason: 'why' } }])), id);
  const others = [
    accountWith([suspended(true)], 2),
    accountWith([suspended(true)], 1, 'user:bob'),
    accountWith([{ ...suspended(true), at: new Date(at.getTime() + 1) }]),
  ].map(idOf);
  t.is(new Set([id, ...others]).size, 4);
  t.true(idOf(accountWith([suspended(true)], 2)) > id);
  t.true(idOf(accountWith([suspended(true)], 33)) > idOf(accountWith([suspended(true)], 32)));
  // Any process must compute the same id.
  t.is(id, 'audit_01KJMMA2KV0000015QP5D3J9J9');
});

test('the records of an account are those of all its changes, each with its original id', (t) => {
  const trail = [suspended(false), minted, suspended(true)];
  const [third, second, first] = [[suspended(false)], [minted], [suspended(true)]]
    .map((changes, index) => accountWith(changes, 7 - index))
    .map((account) => newestRecord(account)?.id);
  t.deepEqual(
    recordsOf(accountWith(trail, 7)).map(({ id }) => id),
    [third, second, first],
  );
  t.deepEqual(recordsOf(accountWith([{ at, by: 'user:ann' }])), [], 'nothing that is shown');
});

test('each change has a record of its kind, with the origin', (t) => {
  const origin = { address: '192.0.2.1', reason: 'why' };
  const topUp = { id: 'code tuc_1', tokens: 5 };
  const kinds = [
    ['account', { suspended: true }],
    ['account', { topUp }],
    ['account', { accountRemoved: true }],
    ['code', { topUp, codeRedeemed: { id: 'tuc_1', note: null } }],
    ['key', { keyMinted: 'key_1', keyRevoked: 'key_2' }],
    ['key', { keyRotated: { from: 'key_1', to: 'key_2' } }],
    ['key', { keyChanged: 'key_1' }],
    ['key', { keyRevoked: 'key_1' }],
    ['batch', { batchCancelled: 'batch_1' }],
    ['request', { requestEnded: 'req_1' }],
    ['backend', { backendPaused: { backend: 'b', minutes: 5 } }],
    ['backend', { backendResumed: 'b' }],
  ] as const;
  for (const [kind, change] of kinds) {
    const record = newestRecord(accountWith([{ at, by: 'user:olga', ...change, origin }]));
    t.like(record, { kind, actor: 'user:olga', account: 'user:ann', change, ...origin });
  }
});

test('a device that makes its own key leaves no record; an operator who revokes it does', (t) => {
  const device = (change: Change) => ({ ...accountWith([change]), guest: { secret: 's', pepper: 'p' } });
  t.is(newestRecord(device(minted)), undefined);
  t.like(newestRecord(device({ at, by: 'user:olga', keyRevoked: 'key_1' })), { kind: 'key' });
  t.like(newestRecord(device({ at, by: 'user:ann', suspended: true })), { kind: 'account' });
});

test('an id that is made of a name sorts by its time, and differs by its name', (t) => {
  const ids = ['a', 'b'].flatMap((name) => [0, 1].map((ms) => auditIdFor(name, new Date(at.getTime() + ms))));
  for (const id of ids) t.regex(id, auditId);
  t.is(new Set(ids).size, 4);
  t.is(decodeTime((ids[0] ?? '').slice('audit_'.length)), at.getTime());
  t.is(ids[0], auditIdFor('a', at));
});

test('a page has each record once, newest first, and prefers a stored record to a waiting one', (t) => {
  const [one, two, three] = ['1', '2', '3'].map((id) => recordOf(id));
  if (one === undefined || two === undefined || three === undefined) throw new Error('there must be three');
  const kept = { ...two, reason: 'kept' };
  t.deepEqual(pageOf({ limit: 10 }, [three, two], [one, kept]), [three, kept, one]);
  t.deepEqual(pageOf({ limit: 2 }, [one], [kept, three]), [three, kept]);
  t.deepEqual(pageOf({ limit: 2, after: '3' }, [three, two, one], []), [two, one]);
  t.deepEqual(pageOf({ limit: 2, account: 'user:bob' }, [three], [two]), []);
  t.deepEqual(pageOf({ limit: 2, actor: 'user:bob' }, [three, { ...one, actor: 'user:bob' }], [two]), [
    { ...one, actor: 'user:bob' },
  ]);
  t.deepEqual(pageOf({ limit: 2, kind: 'key' }, [three, { ...one, kind: 'key' }], [two]), [{ ...one, kind: 'key' }]);
});

test('a page has the records of its time: from its start, and before its end', (t) => {
  const records = [-1, 0, 1, 2].map((ms) => recordOf(auditIdFor('x', new Date(at.getTime() + ms))));
  const times = { start: at, end: new Date(at.getTime() + 2) };
  t.deepEqual(pageOf({ limit: 10, ...times }, records, []), [records[2], records[1]]);
  t.deepEqual(pageOf({ limit: 10, ...times, after: records[2]?.id }, records, []), [records[1]]);
  t.deepEqual(pageOf({ limit: 10, start: new Date(-1), end: new Date(0) }, records, []), []);
});

function recordOf(id: string): AuditRecord {
  return {
    id,
    at,
    kind: 'account',
    actor: 'user:olga',
    address: null,
    account: 'user:ann',
    change: { suspended: true },
    reason: null,
  };
}
