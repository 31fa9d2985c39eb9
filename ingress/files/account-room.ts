import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Batch } from '../../shared/batches/batch.ts';
import {
  bytesBesideFile,
  enterRoom,
  filesOfBatchMax,
  leaveRoom,
  newRoomEntry,
  type RoomRefusal,
} from '../../shared/batches/batch-room.ts';
import { ApiError, rateLimitExceeded, temporarilyUnavailable } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type BatchStore, readAccountBytes, tidyRoom } from '../../shared/store/records/batch-store.ts';

type AccountLimits = Pick<PlanFile['batch'], 'accountBytesMax' | 'accountFilesMax'>;

/** Removes entries of an account that may leave. `now`: Redis's time. Returns whether there were any. */
type Tidy = (account: string, now: number) => Promise<boolean>;

type Account = {
  store: Pick<BatchStore, 'countFiles' | 'findRoom'>;
  tidy: Tidy;
  account: string;
  limits: AccountLimits;
  /** Redis's time, in milliseconds. */
  now: number;
};

/**
 * Fails if the files and results of an account, and one more file of this many bytes, exceed its limits: with `CONFLICT` if there are too
 * many files, with `PAYLOAD_TOO_LARGE` if they have too many bytes (contract.md#ho6-room-of-accounts). Without `oneMore`, an
 * upload that has a record is one of the files.
 */
export async function requireRoom(of: Account, oneMore?: { bytes: number }): Promise<void> {
  const refusal = await refusalOf(of, oneMore);
  if (refusal === undefined) return;
  const last = (await of.tidy(of.account, of.now)) ? await refusalOf(of, oneMore) : refusal;
  if (last !== undefined) throw last;
}

/** The room of an account is tidied at most once a second, because that reads each unfinished batch. */
const tidyEveryMs = 1_000;
const accountsMax = 1_000;

type TidyDeps = {
  store: Pick<BatchStore, 'changeRoom' | 'findBatch' | 'findRoom' | 'listOpenBatches'>;
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number;
};

/** Callers that would be refused at the same time wait for one look: at most a second after the look before. */
export function createTidy({ store, now = () => performance.now() }: TidyDeps): Tidy {
  const tidiedAt = new LRUCache<string, number>({ max: accountsMax });
  const waiting = new Map<string, Promise<boolean>>();

  async function tidyLater(account: string, redisNow: number): Promise<boolean> {
    await sleep(Math.max(0, (tidiedAt.get(account) ?? Number.NEGATIVE_INFINITY) + tidyEveryMs - now()));
    waiting.delete(account);
    tidiedAt.set(account, now());
    return tidyRoom(store, { account, now: redisNow });
  }

  return function tidy(account, redisNow) {
    const tidying = waiting.get(account) ?? tidyLater(account, redisNow);
    waiting.set(account, tidying);
    return tidying;
  };
}

async function refusalOf({ store, account, limits }: Account, oneMore?: { bytes: number }) {
  const { files, bytes, room } = await readAccountBytes(store, account);
  const ofBatches = filesOfBatchMax * Object.keys(room.entries).length;
  if (files + ofBatches + (oneMore ? 1 : 0) > limits.accountFilesMax) return tooManyFiles(limits);
  const more = oneMore === undefined ? 0 : oneMore.bytes + bytesBesideFile;
  return bytes + more > limits.accountBytesMax ? tooManyBytes(limits) : undefined;
}

function tooManyFiles({ accountFilesMax }: AccountLimits): ApiError {
  const message = `This account may have ${accountFilesMax} files, with ${filesOfBatchMax} for each unfinished batch`;
  return new ApiError('CONFLICT', `${message}. Delete some of them.`);
}

function tooManyBytes({ accountBytesMax }: AccountLimits): ApiError {
  const message = `The files of this account, with the results of its batches, may have ${accountBytesMax} bytes`;
  return new ApiError('PAYLOAD_TOO_LARGE', `${message}. Delete some of them.`);
}

const firstClaim = 65_536;
const claimedAheadMax = 8_388_608;

/** How many bytes the record of an upload has when so many have arrived: more than that, and at most what the client has announced. */
export function claimOf(arrived: number, announced = Number.POSITIVE_INFINITY): number {
  const ahead = Math.max(firstClaim, Math.min(2 * arrived, arrived + claimedAheadMax));
  return Math.max(arrived, Math.min(ahead, announced));
}

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
