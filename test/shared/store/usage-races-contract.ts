import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { ApiError } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { sized } from '../../support/size.ts';
import { type Contract, provesOnStore, type StoreHome } from './store-contract.ts';
import { isExact } from './usage-contract.ts';
import { daysOf, entryAt, sumOf, usageRecord, usageRecords } from './usage-records.ts';

const recorder = fileURLToPath(new URL('record-usage-from-process.ts', import.meta.url));

/** The guarantees of every store for usage that is recorded concurrently, or cut off. */
export function testUsageRacesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('if many callers record the same usage, each record is counted once', countsOnce);
  prove('early entries are counted while later ones are recorded', countsMisplacedMeanwhile);
  prove('a repair never removes what was counted in the meantime', repairsUnderTraffic);
  prove('several drainers with calls cut off, repeated ids and entries out of order: the sums are exact', survivesCuts);
  prove('old months are removed while usage is recorded, by two processes at once', removesMeanwhile);
  prove('processes that are killed while they record lose nothing and count nothing twice', survivesKills);
}

async function countsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const records = usageRecords(200, (index) => ({ account: `user:${index % 3}`, model: `m.${index % 2}` }));
  const calls = [10, 25, 40, 70, 200, 200].map(async (size, index) => {
    for (const piece of inPieces(records, () => size)) await (index % 2 === 0 ? one : other).usage.recordUsage(piece);
  });
  await Promise.all(calls);
  await isExact(t, one, records);
}

async function countsMisplacedMeanwhile(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const late = usageRecords(100, (index) => ({ entry: entryAt(1_000 + index) }));
  const early = usageRecords(100);
  await Promise.all([recordAll(one, late, 9), recordAll(other, early, 7), recordAll(one, early, 30)]);
  await isExact(t, one, [...early, ...late]);
}

async function repairsUnderTraffic(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const late = usageRecords(100, (index) => ({ entry: entryAt(1_000 + index) }));
  const early = usageRecords(100);
  let recording = true;
  const repairing = (async () => {
    while (recording) await other.usage.repairUsage('user:ann', '2026-12', '');
  })();
  try {
    await Promise.all([recordAll(one, late, 10), recordAll(one, early, 10)]);
  } finally {
    recording = false;
    await repairing;
  }
  await isExact(t, one, [...early, ...late]);
}

/** A position in an outbox that only moves forward, as the mark in Redis does. */
type Outbox = { records: readonly UsageRecord[]; drained: number };

async function survivesCuts(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  let cuts = 0;
  const rounds = sized(1);
  for (let round = 0; round < rounds || (cuts === 0 && round < 5 * rounds); round += 1) {
    const outboxes = oddOutboxes(`user:${round}`);
    const drainers = [...outboxes, ...outboxes].map(async (outbox) => {
      for (let within = 60; outbox.drained < outbox.records.length; within *= 1.5)
        cuts += await drainUntilCut(home, outbox, within);
    });
    await Promise.all(drainers);
    await isSummed(t, store, outboxes);
  }
  t.log(`${cuts} calls were cut off`);
  t.true(cuts > 0);
}

/**
 * The entries of one account: a first outbox, and a second one that was started with a clock that is behind and repeats requests of the
 * first.
 */
function oddOutboxes(account: string): Outbox[] {
  const admitted = [new Date('2026-11-30T12:00:00Z'), new Date('2026-12-01T12:00:00Z')];
  const shape = (index: number) => ({ account, admittedAt: admitted[index % 2] ?? new Date(0), promptTokens: index });
  const first = usageRecords(250, shape);
  const second = usageRecords(150, (index) => ({ ...shape(index), entry: entryAt(130 + index) }));
  const again = first.filter((_, index) => index % 10 === 0);
  const repeated = again.map((record, index) => ({ ...record, entry: entryAt(280 + index) }));
  return [first, [...second, ...repeated]].map((records) => ({ records, drained: 0 }));
}

/** Drains with a separate store, which is closed at a random moment `within` so many ms. Returns 1 if that cut off a call. */
async function drainUntilCut(home: StoreHome, outbox: Outbox, within: number): Promise<number> {
  await using store = await home.open();
  await store.ping();
  const cut = sleep(Math.random() * within).then(() => store[Symbol.asyncDispose]());
  try {
    while (outbox.drained < outbox.records.length) {
      const from = outbox.drained;
      const to = from + 1 + Math.floor(Math.random() * 150);
      const batch = outbox.records.slice(from, to);
      await store.usage.recordUsage(batch);
      outbox.drained = Math.max(outbox.drained, from + batch.length);
    }
    return 0;
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'SERVICE_UNAVAILABLE') throw error;
    return 1;
  } finally {
    await cut;
  }
}

/** Either of two positions of a request may count, but only one of them. */
async function isSummed(t: ExecutionContext, store: Store, outboxes: readonly Outbox[]): Promise<void> {
  const delivered = outboxes.flatMap(({ records }) => records);
  const stored = new Map<string, UsageRecord>();
  for (const { requestId } of delivered) {
    const record = await store.usage.findUsageRecord(requestId);
    if (record === undefined) return t.fail(`${requestId} was lost`);
    stored.set(requestId, record);
  }
  for (const month of ['2026-11', '2026-12']) {
    const ofMonth = [...stored.values()].filter((record) => record.month === month);
    const expected = sumOf(ofMonth);
    const sum = await store.usage.findUsageSum(expected.account, month);
    t.deepEqual(sum?.total, expected.total);
    t.deepEqual(await store.usage.findUsageDays(expected.account, month), daysOf(ofMonth));
    const { kept, recomputed, wrongDetails } = await store.usage.recomputeUsage(expected.account, month, '');
    t.deepEqual(kept, recomputed);
    t.is(wrongDetails, 0);
  }
}

async function removesMeanwhile(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const days = ['2026-09-15', '2026-10-15', '2026-12-15'].map((day) => new Date(day));
  const records = usageRecords(1_800, (index) => ({
    ...{ account: `user:${index % 7}`, model: `m.${index % 5}` },
    admittedAt: days[index % 3] ?? new Date(0),
  }));
  await recordAll(one, records.slice(0, 1_500), 500);
  const removing = [one, other].map(async (store) => {
    let pieces = 0;
    while ((await store.usage.removeUsageBefore('2026-12')) > 0) pieces += 1;
    return pieces;
  });
  const kept = records.filter(({ month }) => month === '2026-12');
  await recordAll(one, kept.slice(500), 10);
  const pieces = await Promise.all(removing);
  t.true((pieces[0] ?? 0) + (pieces[1] ?? 0) > 3, 'in several pieces');
  await isExact(t, one, kept);
  const months = await one.usage.listUsageMonths({ limit: 100 });
  t.deepEqual([...new Set(months.map(({ month }) => month))], ['2026-12']);
}

async function survivesKills(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  t.timeout(120_000);
  const records = Array.from({ length: sized(200) }, (_, index) => plainRecord(index));
  let drained = 0;
  for (let round = 0; drained < records.length; round += 1) {
    const places = await Promise.all([1, 2].map(() => recordUntilKilled(home.url, { drained, end: records.length })));
    drained = Math.max(drained, ...places);
    if (round > 100) return t.fail('it makes no progress');
  }
  await isExact(t, store, records);
}

/** The last position that a process reported before it was killed at a random moment. */
async function recordUntilKilled(url: string, { drained, end }: { drained: number; end: number }): Promise<number> {
  const child = spawn(process.execPath, [recorder, url, String(drained), String(end)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  let place = drained;
  const batches = 1 + Math.floor(Math.random() * 6);
  for await (const line of createInterface({ input: child.stdout })) {
    place = Number(line);
    if (place >= drained + batches * 20) setTimeout(() => child.kill('SIGKILL'), Math.random() * 8);
  }
  await exited;
  return place;
}

/** The same record in every process. */
export function plainRecord(index: number): UsageRecord {
  const place = { account: `user:${index % 4}`, model: `m.${index % 3}` };
  return usageRecord({ ...place, requestId: `req_${index}`, entry: entryAt(index), promptTokens: index });
}

async function recordAll(store: Store, records: readonly UsageRecord[], size: number): Promise<void> {
  for (const piece of inPieces(records, () => size)) await store.usage.recordUsage(piece);
}

function inPieces(records: readonly UsageRecord[], size: () => number): UsageRecord[][] {
  const pieces: UsageRecord[][] = [];
  for (let from = 0; from < records.length; ) {
    const piece = records.slice(from, from + size());
    pieces.push(piece);
    from += piece.length;
  }
  return pieces;
}
