import test from 'ava';
import { decodeTime } from 'ulid';
import type { Account, Change } from '../../../../shared/store/records/account.ts';
import {
  type AuditRecord,
  auditId,
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

test('the records of an account are those of all changes of settings that it has, each with its original id', (t) => {
  const trail = [suspended(false), minted, suspended(true)];
  const [third, first] = [accountWith([suspended(false)], 7), accountWith([suspended(true)], 5)].map(
    (account) => newestRecord(account)?.id,
  );
  t.deepEqual(
    recordsOf(accountWith(trail, 7)).map(({ id }) => id),
    [third, first],
  );
  t.deepEqual(recordsOf(accountWith([minted])), []);
});

test('what an operator ends has a record, with the origin; a key that its own account revokes has none', (t) => {
  const origin = { address: '192.0.2.1', reason: 'why' };
  for (const ended of [{ keyRevoked: 'key_1' }, { batchCancelled: 'batch_1' }, { requestEnded: 'req_1' }]) {
    const record = newestRecord(accountWith([{ at, by: 'user:olga', ...ended, origin }]));
    t.like(record, { actor: 'user:olga', account: 'user:ann', change: ended, ...origin });
  }
  t.is(newestRecord(accountWith([{ at, by: 'user:ann', keyRevoked: 'key_1' }])), undefined);
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
});

function recordOf(id: string): AuditRecord {
  return { id, at, actor: 'user:olga', address: null, account: 'user:ann', change: { suspended: true }, reason: null };
}
