import test from 'ava';
import { enterRoom, leaveRoom, lineBytesReserved, newRoomEntry } from '../../../../shared/batches/batch-room.ts';
import { readAccountBytes } from '../../../../shared/store/records/batch-store.ts';
import { lineBytesOf } from '../../../../workers/batches/lines/line-results.ts';
import { expectedBytes } from '../../../../workers/batches/lines/result-room.ts';
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
    /** A line whose answer has more bytes for each token than expected. */
    long(line = 1) {
      const messages = [{ role: 'user', content: `${'\t'.repeat(180)}long`.repeat(10) }];
      const body = JSON.stringify({ model: 'small-chat', max_tokens: 200, messages });
      return side.jobOf({ line, payload: body, outputTokensMax: 200 });
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
  await using side = await open(bytes);
  t.true(bytes > expectedBytes(side.long()), String(bytes));
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

test('lines run at once while there is room for all their answers, and others wait until these have ended', async (t) => {
  const bytes = await bytesOfAnswer();
  await using side = await open();
  const expected = expectedBytes(side.long());
  side.roomFor(3 * expected - 1);
  const outcomes = await Promise.all(Array.from({ length: 8 }, (_, index) => side.run(side.long(index + 1))));
  t.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ['done', 'done', ...Array(6).fill('later')],
  );
  t.deepEqual([side.calls().length, await side.leases()], [2, 0]);
  t.deepEqual(side.eventTypes().toSorted().slice(0, 2), ['ended', 'ended']);
  t.is(side.eventTypes().filter((type) => type === 'postponed').length, 6);
  t.deepEqual(await side.pauses(), { room: 6 });

  // One of them had room. The other one was longer than expected, so from now on as much is expected of each.
  t.is(await side.more(), bytes);
  t.is((await side.records()).filter(({ chargedTokens }) => chargedTokens > 0).length, 1);
  side.roomFor(3 * bytes);
  const again = await Promise.all([3, 4, 5].map((line) => side.run(side.long(line))));
  t.deepEqual(again.map(({ outcome }) => outcome).toSorted(), ['done', 'done', 'later']);
  t.is(await side.more(), 3 * bytes);
});

test('a line does not run without room for the answer that its limit allows', async (t) => {
  await using side = await open();
  const job = side.jobOf({ outputTokensMax: 1_000, choices: 2 });
  side.roomFor(expectedBytes(job) - 1);
  await side.run(job);
  t.deepEqual(await side.outcomes(1), ['account_bytes_limit']);
  t.deepEqual([side.calls().length, await side.charged()], [0, nothing]);
  side.roomFor(expectedBytes(job));
  await side.run(side.jobOf({ ...job, line: 2, requestId: `${job.requestId}-2` }));
  t.deepEqual(await side.outcomes(2), ['account_bytes_limit', 'completed']);
});

test('what had no room counts for later batches of the account', async (t) => {
  const bytes = await bytesOfAnswer();
  await using side = await open(bytes - 1);
  await side.run(side.long(1));
  await side.store.changeRoom(side.account, leaveRoom([side.batch.id]));
  const entry = newRoomEntry({ lines: 30, tokens: 1, since: new Date() });
  await side.store.changeRoom(side.account, enterRoom(side.batch.id, entry, noLimits));
  side.roomFor(bytes - 1);
  await side.run(side.jobOf({ line: 2 }));
  t.deepEqual(await side.outcomes(2), ['account_bytes_limit', 'account_bytes_limit']);
  t.is(side.calls().length, 1, 'the second line did not run');
});

test('it is expected that an answer has four bytes for each token, and at most what a line may have', (t) => {
  t.is(expectedBytes({ outputTokensMax: 100, choices: 3 }), 1_024 + 1_200);
  t.is(expectedBytes({ outputTokensMax: 1_000_000, choices: 2 }), 4_194_304);
  t.is(expectedBytes({ outputTokensMax: 0, choices: 1 }), 65_536, 'vectors');
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
  await using side = await open();
  const job = side.jobOf();
  side.roomFor(expectedBytes(job));
  side.servers[0]?.fail({ status: 400, errorMessage: 'x'.repeat(expectedBytes(job)) });
  await side.run(job);
  t.like(await side.result(), { failed: true, status: 400, error: { code: 'VALIDATION_ERROR' } });
  const more = await side.more();
  t.true(more > 0);
});
