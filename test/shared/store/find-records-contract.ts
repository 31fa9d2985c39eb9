import type { ExecutionContext } from 'ava';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { type Contract, provesOnStore } from './store-contract.ts';
import { usageRecord, usageRecords } from './usage-records.ts';

/** The guarantees of every store for finding and listing single requests. */
export function testFindRecordsContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('a request is found by the id of its answer, only by its account, and the latest of several', findsByAnswer);
  prove('the requests of an account are listed by admission, latest first, page by page', listsByAdmission);
  prove('requests of one millisecond are listed by id, also across pages', listsTies);
}

const at = (second: number) => new Date(Date.UTC(2026, 11, 5, 10, 0, second));

async function findsByAnswer(t: ExecutionContext, store: Store): Promise<void> {
  const odd = 'chatcmpl/ü 🗝️ %_$';
  const records = usageRecords(4, (index) => ({
    // Settled in another order than admitted.
    admittedAt: at([3, 9, 5, 7][index] ?? 0),
    answerId: 'chatcmpl-1',
    account: index === 1 ? 'user:bob' : 'user:ann',
  }));
  const other = usageRecord({ answerId: odd });
  const without = usageRecord();
  await store.usage.recordUsage([...records, other, without]);
  t.deepEqual(await store.usage.findUsageByAnswer('user:ann', 'chatcmpl-1'), records[3]);
  t.deepEqual(await store.usage.findUsageByAnswer('user:bob', 'chatcmpl-1'), records[1]);
  t.deepEqual(await store.usage.findUsageByAnswer('user:ann', odd), other);
  t.is(await store.usage.findUsageByAnswer('user:bob', odd), undefined);
  t.is(await store.usage.findUsageByAnswer('user:ann', 'chatcmpl-'), undefined);
  t.is(await store.usage.findUsageByAnswer('user:ann', ''), undefined);
}

async function listsByAdmission(t: ExecutionContext, store: Store): Promise<void> {
  // Of two months, and of an account whose name begins with the other's.
  const month = (index: number) => new Date(Date.UTC(2026, 10 + (index % 2), 5, 10, index));
  const own = usageRecords(25, (index) => ({ admittedAt: month((index * 7) % 25) }));
  await store.usage.recordUsage([...own, usageRecord({ account: 'user:ann2' }), usageRecord({ account: 'user:an' })]);
  const expected = [...own].sort((one, other) => other.admittedAt.getTime() - one.admittedAt.getTime());
  t.deepEqual(await listAll(store, 100), expected);
  t.deepEqual(await listAll(store, 4), expected);
  t.deepEqual(await listAll(store, 25), expected);
  t.deepEqual(await store.usage.listUsageRecords('user:carl', { limit: 5 }), []);
  const before = { admittedAt: new Date(0), requestId: 'req_1' };
  t.deepEqual(await store.usage.listUsageRecords('user:ann', { before, limit: 5 }), []);
}

async function listsTies(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(9, (index) => ({ requestId: `req_${(index * 5) % 9}`, admittedAt: at(index % 2) }));
  await store.usage.recordUsage(records);
  const expected = [...records].sort(
    (one, other) => other.admittedAt.getTime() - one.admittedAt.getTime() || (one.requestId < other.requestId ? 1 : -1),
  );
  for (const limit of [1, 2, 3, 100]) t.deepEqual(await listAll(store, limit), expected, `pages of ${limit}`);
}

async function listAll(store: Store, limit: number): Promise<UsageRecord[]> {
  const all: UsageRecord[] = [];
  for (;;) {
    const page = await store.usage.listUsageRecords('user:ann', { before: all.at(-1), limit });
    all.push(...page);
    if (page.length < limit) return all;
  }
}
