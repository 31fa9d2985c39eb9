import test from 'ava';
import fc from 'fast-check';
import {
  type BatchRoom,
  type DecideRoom,
  emptyRoom,
  enterRoom,
  filesOfBatchMax,
  giveBackBytes,
  leaveRoom,
  moveBytesToFiles,
  newRoomEntry,
  noteRefused,
  type RoomLimits,
  refusedBytes,
} from '../../../shared/batches/batch-room.ts';

const since = new Date(0);
const noLimit: RoomLimits = { batchesMax: 100, filesMax: 1_000, bytesMax: 1e9, tokensMax: undefined };
const entry = newRoomEntry({ lines: 10, tokens: 50, since });

function after(room: BatchRoom, ...changes: DecideRoom<unknown>[]): BatchRoom {
  return changes.reduce((now, change) => change(now).next ?? now, room);
}

test('a batch enters up to each limit, and not beyond', (t) => {
  const one = after(emptyRoom, enterRoom('one', entry, noLimit));
  t.deepEqual(one, { bytes: entry.bytes, entries: { one: entry } });
  const cases: [Partial<RoomLimits>, Partial<RoomLimits>, string, number][] = [
    [{ batchesMax: 2 }, { batchesMax: 1 }, 'batches', 1],
    [{ tokensMax: 100 }, { tokensMax: 99 }, 'tokens', 50],
    [{ filesMax: 2 * filesOfBatchMax }, { filesMax: 2 * filesOfBatchMax - 1 }, 'files', 1],
    [{ bytesMax: 2 * entry.bytes }, { bytesMax: 2 * entry.bytes - 1 }, 'bytes', entry.bytes],
  ];
  for (const [enough, less, limit, held] of cases) {
    t.is(enterRoom('two', entry, { ...noLimit, ...enough })(one).result, undefined, limit);
    t.deepEqual(enterRoom('two', entry, { ...noLimit, ...less })(one), { result: { limit, held } }, limit);
  }
});

test('what is repeated, and what concerns a batch that is not there, changes nothing', (t) => {
  const room = after(emptyRoom, enterRoom('one', entry, noLimit), noteRefused(5, 0));
  const moved = after(room, moveBytesToFiles('one'));
  t.is(moved.bytes, 0);
  for (const repeated of [moveBytesToFiles('one'), noteRefused(5, 1), leaveRoom(['two']), leaveRoom([])]) {
    t.deepEqual(repeated(moved), { result: undefined });
  }
  for (const absent of [giveBackBytes('two', 1), moveBytesToFiles('two')]) {
    t.deepEqual(absent(room), { result: undefined });
  }
});

test('the largest result that had no room counts for a day, also after its batch', (t) => {
  const day = 86_400_000;
  const room = after(emptyRoom, enterRoom('one', entry, noLimit), noteRefused(5_000, 0), noteRefused(1_000, day - 1));
  const left = after(room, leaveRoom(['one']), enterRoom('two', entry, noLimit));
  t.deepEqual(left, { bytes: entry.bytes, entries: { two: entry }, refused: { bytes: 5_000, at: new Date(0) } });
  t.is(refusedBytes(left, day), 5_000);
  t.is(refusedBytes(left, day + 1), 0);
  const later = after(left, noteRefused(1_000, day + 1));
  t.is(refusedBytes(later, day + 1), 1_000);
  t.is(refusedBytes(emptyRoom, 0), 0);
});

test('whatever happens in whatever order, the bytes of a room are those of its entries, and never negative', (t) => {
  const batch = fc.constantFrom('one', 'two', 'three');
  const bytes = fc.nat(5_000);
  const change: fc.Arbitrary<DecideRoom<unknown>> = fc.oneof(
    fc.tuple(batch, fc.nat(20)).map(([id, lines]) => enterRoom(id, newRoomEntry({ lines, tokens: 1, since }), noLimit)),
    batch.map((id) => leaveRoom([id])),
    fc.tuple(batch, bytes).map(([id, less]) => giveBackBytes(id, less)),
    batch.map(moveBytesToFiles),
    fc.tuple(bytes, fc.nat(5)).map(([more, day]) => noteRefused(more, day * 50_000_000)),
  );
  fc.assert(
    fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
      const room = after(emptyRoom, ...changes);
      const all = Object.values(room.entries);
      t.is(
        room.bytes,
        all.reduce((sum, each) => sum + each.bytes, 0),
      );
      t.true(all.every((each) => each.bytes >= 0));
    }),
  );
});
