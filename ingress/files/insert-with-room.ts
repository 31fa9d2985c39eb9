import type { Batch } from '../../shared/batches/batch.ts';
import { enterRoom, leaveRoom, newRoomEntry, type RoomRefusal } from '../../shared/batches/batch-room.ts';
import { type ApiError, rateLimitExceeded, temporarilyUnavailable } from '../../shared/errors.ts';
import { type BatchStore, readAccountBytes } from '../../shared/store/records/batch-store.ts';
import { type AccountLimits, createTidy, tooManyBytes, tooManyFiles } from './account-room.ts';

/** For one account. A worker holds each unfinished batch in memory and checks it every few seconds, however small it is. */
const unfinishedMax = 100;
const retryAfterMs = 60_000;
/** The entry has the time of the request's head. Its body takes up to 30 s before this, and the store a few seconds after it. */
const insertsWithinMs = 20_000;

type Deps = {
  store: Pick<
    BatchStore,
    'changeRoom' | 'countFiles' | 'findBatch' | 'findClaimedBatch' | 'findRoom' | 'insertBatch' | 'listOpenBatches'
  >;
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number;
};

type NewEntry = {
  batch: Batch;
  /** Of its file. */
  lines: number;
  limits: AccountLimits & { tokensMax: number | undefined };
  claim: string | undefined;
};

export type InsertWithRoom = (wanted: NewEntry) => Promise<void>;

/**
 * Inserts a batch if its account has room for it, also if many are created at once: the batch has its entry in the room before it exists
 * (contract.md#ho6-room-of-accounts). If the process dies in between, the entry leaves after a minute. Fails with
 * `rate_limit_exceeded`, with `PAYLOAD_TOO_LARGE` if there is no room for bytes, and with `CONFLICT` if there are too many files.
 */
export function createInsertWithRoom({ store, now = () => performance.now() }: Deps): InsertWithRoom {
  const tidy = createTidy({ store, now });

  async function enter({ batch, lines, limits }: NewEntry): Promise<RoomRefusal | undefined> {
    const { id, account, tokens, createdAt: since } = batch;
    const { files, fileBytes } = await readAccountBytes(store, account);
    const decide = enterRoom(id, newRoomEntry({ lines, tokens, since }), {
      batchesMax: unfinishedMax,
      filesMax: limits.accountFilesMax - files,
      bytesMax: limits.accountBytesMax - fileBytes,
      tokensMax: limits.tokensMax,
    });
    return store.changeRoom(account, decide);
  }

  return async function insertWithRoom(wanted: NewEntry): Promise<void> {
    const { batch, claim } = wanted;
    const { id, account, createdAt } = batch;
    const since = now();
    let refusal = await enter(wanted);
    if (refusal !== undefined && (await tidy(account, createdAt.getTime()))) refusal = await enter(wanted);
    if (refusal !== undefined) throw refused(refusal, wanted);
    // The entry of a batch that comes too late may have left.
    if (now() - since > insertsWithinMs) throw temporarilyUnavailable(new Error('a batch took too long to create'));
    await store.insertBatch(batch, claim);
    if (claim === undefined) return;
    const claimed = await store.findClaimedBatch(claim);
    if (claimed?.id !== id) await store.changeRoom(account, leaveRoom([id]));
  };
}

function refused({ limit, held }: RoomRefusal, { batch, limits }: NewEntry): ApiError {
  switch (limit) {
    case 'batches':
      return noRoom(`The account has ${held} unfinished batches, and can have ${unfinishedMax}.`);
    case 'tokens':
      return noRoom(
        `This batch has about ${batch.tokens} tokens, and ${held} are already waiting: the plan has room for ${limits.tokensMax}.`,
      );
    case 'files':
      return tooManyFiles(limits);
    case 'bytes':
      return tooManyBytes(limits);
  }
}

function noRoom(message: string): ApiError {
  return rateLimitExceeded('batch_limit', message, retryAfterMs);
}
