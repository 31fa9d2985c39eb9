import test from 'ava';
import { createInsertWithRoom } from '../../../ingress/files/account-room.ts';
import type { Batch } from '../../../shared/batches/batch.ts';
import type { BatchRoom, DecideRoom } from '../../../shared/batches/batch-room.ts';

const createdAt = new Date('2026-11-28T00:00:00Z');
const batch = { id: 'batch_new', account: 'user:alice', tokens: 1, createdAt } as Batch; // what is read of it
const limits = { accountBytesMax: 1_000_000_000, accountFilesMax: 1_000, tokensMax: undefined };

test('creations that are refused look once a second for entries that may leave, and each is refused after such a look', async (t) => {
  const entry = { tokens: 1, bytes: 1, since: createdAt };
  const room: BatchRoom = {
    bytes: 100,
    entries: Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`batch_${index}`, entry])),
  };
  let looks = 0;
  let now = 0;
  const insert = createInsertWithRoom({
    now: () => now,
    store: {
      changeRoom: async <Result>(_: string, decide: DecideRoom<Result>) => decide(room).result,
      countFiles: async () => ({ files: 0, bytes: 0 }),
      findBatch: async () => undefined,
      findClaimedBatch: async () => undefined,
      findRoom: async () => room,
      insertBatch: () => Promise.reject(new Error('it has no room')),
      async listOpenBatches() {
        looks++;
        return [];
      },
    },
  });
  const refused = async () => {
    const error = await t.throwsAsync(insert({ batch, lines: 1, limits, claim: undefined }));
    t.like(error, { code: 'rate_limit_exceeded' });
  };
  await Promise.all([refused(), refused(), refused()]);
  t.is(looks, 1);
  now = 1_000;
  await refused();
  t.is(looks, 2);
});
