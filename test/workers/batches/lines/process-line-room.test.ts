import test from 'ava';
import { enterRoom, lineBytesReserved, newRoomEntry } from '../../../../shared/batches/batch-room.ts';
import { readAccountBytes } from '../../../../shared/store/batches/account-bytes.ts';
import { lineBytesOf } from '../../../../workers/batches/lines/line-results.ts';
import { openLineSide } from '../../../support/line-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

const noLimits = { batchesMax: 100, filesMax: 1_000, bytesMax: 1e12, tokensMax: undefined };
const error = {
  code: 'account_bytes_limit',
  message: 'The files and results of this account leave no room for the answer of this line.',
};
const nothing = { used: 0, reserved: 0 };

/** A batch whose account may hold so many bytes more than it does at first. */
async function open(roomFor = Number.POSITIVE_INFINITY) {
  const state = { roomFor, atFirst: 0, now: performance.now() };
  const side = await openLineSide(own.redis, {
    now: () => state.now,
    bytesMax: () => state.atFirst + state.roomFor,
  });
  const entry = newRoomEntry({ lines: 30, tokens: 1, since: new Date() });
  await side.store.changeRoom(side.account, enterRoom(side.batch.id, entry, noLimits));
  const held = async () => (await readAccountBytes(side.store, side.account)).bytes;
  state.atFirst = await held();
  return Object.assign(side, {
    /** What the account holds by now in addition. */
    more: async () => (await held()) - state.atFirst,
    /** From now on there is room for so many bytes in addition, and the worker looks again. */
    roomFor(bytes: number): void {
      state.roomFor = bytes;
      state.now += 1_001;
    },
    /** A line whose answer is longer than what is reserved for a line. */
    long(line = 1) {
      const messages = [{ role: 'user', content: 'Write. '.repeat(300) }];
      const body = JSON.stringify({ model: 'small-chat', max_tokens: 1_000, messages });
      return side.jobOf({ line, body, outputTokensMax: 1_000 });
    },
    /** The code of the error of each line, or `completed`. */
    async outcomes(lines: number) {
      const results = Array.from({ length: lines }, (_, index) => side.result(index + 1));
      return (await Promise.all(results)).map((result) => result && (result.error?.code ?? 'completed'));
    },
  });
}

/** What the answer of the long line takes beyond what is reserved. */
async function bytesOfAnswer(): Promise<number> {
  await using side = await open();
  await side.run(side.long());
  const result = await side.result();
  return result === undefined ? 0 : lineBytesOf(result) - lineBytesReserved;
}

test('an answer counts for its account, and is kept if there is room for its last byte', async (t) => {
  const bytes = await bytesOfAnswer();
  t.true(bytes > 100, String(bytes));
  await using side = await open(bytes);
  await side.run(side.long());
  t.like(await side.result(), { failed: false, error: null });
  t.is(await side.more(), bytes);
  await side.run(side.jobOf({ line: 2 }));
  t.deepEqual(await side.outcomes(2), ['completed', 'account_bytes_limit'], 'there is no room for another one');
});

test('an answer without room ends in the error file, uncharged, and further lines do not run until there is room', async (t) => {
  const bytes = await bytesOfAnswer();
  await using side = await open(bytes - 1);
  t.deepEqual(await side.run(side.long(1)), { outcome: 'done' });
  t.like(await side.result(1), { failed: true, status: null, body: null, error });
  t.deepEqual(await side.charged(), nothing);
  t.like(await side.records(), { 0: { outcome: 'failed', chargedTokens: 0 }, length: 1 });
  t.deepEqual(side.eventTypes(), ['started', 'ended']);
  t.is(side.calls().length, 1);

  t.deepEqual(await side.run(side.long(2)), { outcome: 'done' });
  t.like(await side.result(2), { failed: true, error });
  t.is(side.calls().length, 1, 'it did not run');
  t.deepEqual([await side.charged(), await side.leases()], [nothing, 0]);
  t.like(await side.records(), { length: 1 });
  t.deepEqual(side.eventTypes().slice(2), ['started', 'ended']);

  side.roomFor(bytes);
  await side.run(side.long(3));
  t.deepEqual(await side.outcomes(3), ['account_bytes_limit', 'account_bytes_limit', 'completed']);
  t.is((await side.charged()).used > 0, true);
  t.is(await side.more(), bytes);
  t.regex(await side.registry.metrics(), /svc_batch_lines_total\{.*outcome="account_bytes_limit"\} 2/);
});

test('of lines that run at once as many are kept as there is room for, and the others cost nothing', async (t) => {
  const bytes = await bytesOfAnswer();
  await using side = await open(3 * bytes + 5);
  await Promise.all(Array.from({ length: 8 }, (_, index) => side.run(side.long(index + 1))));
  const outcomes = await side.outcomes(8);
  t.deepEqual(outcomes.toSorted(), [...Array(5).fill('account_bytes_limit'), ...Array(3).fill('completed')]);
  t.is(await side.more(), 3 * bytes);
  const records = await side.records();
  t.is(records.filter(({ chargedTokens }) => chargedTokens > 0).length, 3);
});

test('an entry that a process has left without a batch leaves when a line finds no room', async (t) => {
  const bytes = await bytesOfAnswer();
  await using side = await open(bytes);
  const left = newRoomEntry({ lines: 1_000, tokens: 1, since: new Date(Date.now() - 61_000) });
  await side.store.changeRoom(side.account, enterRoom('batch_left', left, noLimits));
  side.roomFor(bytes);
  await side.run(side.long());
  t.deepEqual(await side.outcomes(1), ['completed']);
  t.deepEqual(Object.keys((await side.store.findRoom(side.account)).entries), [side.batch.id]);
});

test('a failure is kept without room, and counts', async (t) => {
  await using side = await open(1);
  const message = 'x'.repeat(2_000);
  side.servers[0]?.fail({ status: 400, errorMessage: message });
  await side.run(side.jobOf());
  t.like(await side.result(), { failed: true, status: 400, error: { code: 'VALIDATION_ERROR' } });
  const more = await side.more();
  t.true(more > 0);
});
