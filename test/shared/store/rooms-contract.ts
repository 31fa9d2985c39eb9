import type { ExecutionContext } from 'ava';
import {
  emptyRoom,
  enterRoom,
  giveBackBytes,
  leaveRoom,
  newRoomEntry,
  noteRefused,
  type RoomEntry,
  type RoomLimits,
} from '../../../shared/batches/batch-room.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf } from './batch-records.ts';
import { type Contract, provesOnStore, type StoreHome } from './store-contract.ts';

const since = new Date('2026-12-05T10:11:12.345Z');
const noLimit: RoomLimits = { batchesMax: 1_000, filesMax: 1_000_000, bytesMax: 1e12, tokensMax: undefined };
const entryOf = (given: Partial<RoomEntry> = {}): RoomEntry => ({ tokens: 10, bytes: 1_000, since, ...given });

/** The guarantees of every store for what the unfinished batches of an account hold. */
export function testRoomsContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('a room is empty until an entry is added, and has it unchanged until it leaves', keepsEntries);
  prove('bytes are taken up to the limit, and not for a batch without an entry', takesBytes);
  prove('a decision without a change writes nothing, and its error is passed on', decides);
}

/** The same under concurrency, for serial tests, because they make many calls at once. */
export function testRoomRacesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('of 40 batches that enter at once as many have room as the limit of tokens says', entersExactly);
  prove('results of two processes at once take the bytes that there are, and no more', takesExactly);
}

async function keepsEntries(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [one, two] = [batchOf().id, batchOf().id];
  t.deepEqual(await batches.findRoom('user:ann'), emptyRoom);
  const first = newRoomEntry({ lines: 3, tokens: 7, since });
  const second = entryOf();
  t.is(await batches.changeRoom('user:ann', enterRoom(one, first, noLimit)), undefined);
  t.is(await batches.changeRoom('user:ann', enterRoom(two, second, noLimit)), undefined);
  const both = { bytes: first.bytes + second.bytes, entries: { [one]: first, [two]: second } };
  t.deepEqual(await batches.findRoom('user:ann'), both);
  t.deepEqual(await batches.findRoom('user:bob'), emptyRoom);
  await batches.changeRoom('user:ann', leaveRoom([one, 'batch_missing']));
  t.deepEqual(await batches.findRoom('user:ann'), { bytes: second.bytes, entries: { [two]: second } });
  await batches.changeRoom('user:ann', leaveRoom([two]));
  t.deepEqual(await batches.findRoom('user:ann'), emptyRoom);
  await batches.changeRoom('user:ann', leaveRoom([two]));
  await batches.changeRoom('user:ann', noteRefused(5, since.getTime()));
  await batches.changeRoom('user:ann', enterRoom(two, second, noLimit));
  const refused = { bytes: 5, at: since };
  t.deepEqual(await batches.findRoom('user:ann'), { bytes: second.bytes, entries: { [two]: second }, refused });
}

async function takesBytes(t: ExecutionContext, { batches }: Store): Promise<void> {
  const [one, two] = [batchOf().id, batchOf().id];
  const take = (batch: string, bytes: number, bytesMax = 2_500) =>
    batches.takeBytes('user:ann', { batch, bytes, bytesMax });
  t.is(await take(one, 1), 'absent', 'an account without a room');
  for (const batch of [one, two]) await batches.changeRoom('user:ann', enterRoom(batch, entryOf(), noLimit));
  t.is(await take('batch_missing', 1), 'absent');
  t.is(await take(one, 501), 'full');
  t.is(await take(one, 500), 'taken');
  t.is(await take(two, 1), 'full');
  t.is(await take(two, 3_000_000_000, Number.MAX_SAFE_INTEGER), 'taken');
  t.is(await take(two, 1), 'full', 'also beyond the limit');
  t.like((await batches.findRoom('user:ann')).entries, { [one]: { bytes: 1_500 }, [two]: { bytes: 3_000_001_000 } });
  await batches.changeRoom('user:ann', giveBackBytes(two, 3_000_000_000));
  t.is((await batches.findRoom('user:ann')).bytes, 2_500);
}

async function decides(t: ExecutionContext, { batches }: Store): Promise<void> {
  t.is(await batches.changeRoom('user:ann', () => ({ result: 'nothing' })), 'nothing');
  t.deepEqual(await batches.findRoom('user:ann'), emptyRoom);
  const refusal = new Error('of the caller');
  const refusing = batches.changeRoom('user:ann', () => {
    throw refusal;
  });
  t.is(await t.throwsAsync(refusing), refusal);
}

async function entersExactly(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const limits = { ...noLimit, tokensMax: 130 };
  const entering = Array.from({ length: 40 }, (_, index) =>
    (index % 2 === 0 ? one : other).batches.changeRoom('user:ann', enterRoom(batchOf().id, entryOf(), limits)),
  );
  const refused = (await Promise.all(entering)).filter((refusal) => refusal !== undefined);
  t.is(refused.length, 27);
  for (const refusal of refused) t.deepEqual(refusal, { limit: 'tokens', held: 130 });
  const { entries, bytes } = await one.batches.findRoom('user:ann');
  t.deepEqual([Object.keys(entries).length, bytes], [13, 13_000]);
}

async function takesExactly(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const ids = [batchOf().id, batchOf().id];
  for (const id of ids) await one.batches.changeRoom('user:ann', enterRoom(id, entryOf(), noLimit));
  const takings = Array.from({ length: 60 }, (_, index) =>
    (index % 2 === 0 ? one : other).batches.takeBytes('user:ann', {
      ...{ batch: ids[index % 3 === 0 ? 0 : 1] ?? '', bytes: 100, bytesMax: 4_050 },
    }),
  );
  // Entries come and go meanwhile.
  const passing = Array.from({ length: 10 }, async () => {
    const { id } = batchOf();
    await one.batches.changeRoom('user:ann', enterRoom(id, entryOf({ bytes: 0 }), noLimit));
    await other.batches.changeRoom('user:ann', leaveRoom([id]));
  });
  const [taken] = await Promise.all([Promise.all(takings), Promise.all(passing)]);
  t.deepEqual(
    [taken.filter((each) => each === 'taken').length, taken.filter((each) => each === 'full').length],
    [20, 40],
  );
  const room = await other.batches.findRoom('user:ann');
  t.is(room.bytes, 4_000);
  t.deepEqual(Object.keys(room.entries).toSorted(), ids.toSorted());
  t.is(await one.batches.takeBytes('user:ann', { batch: ids[0] ?? '', bytes: 51, bytesMax: 4_050 }), 'full');
}
