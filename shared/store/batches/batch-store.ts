import type { Batch, BatchResult, BatchRetry, BatchState, StoredFile } from '../../batches/batch.ts';
import type { BatchRoom, DecideRoom, Taking, WantedBytes } from '../../batches/batch-room.ts';

/**
 * A page, newest first if `order` is omitted. `after` is the id of the item before its first. With `keyIds` it has only what was made with
 * one of these keys; reading it takes no more than reading a page of each of them.
 */
export type Page = {
  limit: number;
  after?: string | undefined;
  order?: 'asc' | 'desc' | undefined;
  keyIds?: readonly string[] | undefined;
};

/** A decision on a batch. Without `next` it remains unchanged. */
export type BatchDecision<Result> = { result: Result; next?: Batch };
export type DecideBatch<Result> = (batch: Batch | undefined) => BatchDecision<Result>;

/**
 * A line that is about to run. `result` is set if it has ended. `number` is that of its latest request. `retry` is the record of that
 * request, unless it is the first. `state` and `open` are its batch's.
 */
export type BatchLine = {
  state: BatchState;
  open: boolean;
  number: number;
  retry: BatchRetry | undefined;
  result: BatchResult | undefined;
};

/**
 * `count` is the number of open batches by state, without states that have none. Of those `validating` or `in_progress`, `oldestAt` is when
 * the first was created, and `tokens` is an estimate of all their prompts.
 */
export type BatchStats = {
  count: Partial<Record<BatchState, number>>;
  oldestAt: Date | undefined;
  tokens: number;
};

/** Files and batches, the results of their lines, and the lines that were retried (contract.md#r9-batches). Pages are ordered by id. */
export interface BatchStore extends FileRecords, BatchRecords, RoomRecords, LineRecords {}

export type FilePage = Page & { purpose?: StoredFile['purpose'] | undefined };

export type FileCount = { files: number; bytes: number };

/** Records of files. Their bytes are in `FileStore`. */
export interface FileRecords {
  /** Returns false if a file with this id already exists. */
  insertFile(file: StoredFile): Promise<boolean>;
  findFile(id: string): Promise<StoredFile | undefined>;
  /** Lists the `ready` files of an account, only those of `purpose` if it is given. */
  listFiles(account: string, page: FilePage): Promise<StoredFile[]>;
  /** Changes the file if it is in the state `from`; returns false if it is not. */
  changeFile(
    id: string,
    from: StoredFile['state'],
    change: Partial<Omit<StoredFile, 'id' | 'account'>>,
  ): Promise<boolean>;
  /** Removes the record of a file. Idempotent. */
  removeFile(id: string): Promise<void>;
  /** Counts the `ready` files of an account, and those that are `writing`, with the bytes in their records. */
  countFiles(account: string): Promise<FileCount>;
  /**
   * Lists files to remove: `ready` files that have expired at this time, `deleting` files, and `writing` files created before
   * `writingSince`. They are in order of `expiresAt`, so that under a limit each file has its turn.
   */
  listFilesToRemove(at: Date, writingSince: Date, limit: number): Promise<StoredFile[]>;
}

export interface BatchRecords extends EndedBatches {
  /**
   * Inserts a batch. An existing batch with this id remains unchanged, so that the call can be repeated. Nothing is inserted if another
   * batch has the same `claim`, an id of the request that creates it.
   */
  insertBatch(batch: Batch, claim?: string): Promise<void>;
  /** Finds the batch that was inserted with this claim. */
  findClaimedBatch(claim: string): Promise<Batch | undefined>;
  findBatch(id: string): Promise<Batch | undefined>;
  listBatches(account: string, page: Page): Promise<Batch[]>;
  /**
   * Changes one batch atomically as `decide` returns. `next` is written only if the batch has not changed in the meantime; otherwise
   * `decide` is called again. It is written with the next `version`; `decide` does not change the version. If the batch does not exist,
   * nothing is written.
   */
  changeBatch<Result>(id: string, decide: DecideBatch<Result>): Promise<Result>;
  /** Removes a batch that is not open. Idempotent. */
  removeBatch(id: string): Promise<void>;
  /** Lists the accounts that have open batches, each once, in no order. */
  listOpenAccounts(): Promise<string[]>;
  /** Lists the open batches of these accounts, in order of their ids. */
  listOpenBatches(accounts: readonly string[]): Promise<Batch[]>;
  /** Returns whether an open batch that is not over has this file as its input. */
  isInputOfUnfinished(file: string): Promise<boolean>;
  describeBatches(): Promise<BatchStats>;
}

/** What the unfinished batches of each account hold, one document for each account (contract.md#ho6-room-of-accounts). */
export interface RoomRecords {
  /** Returns an empty room for an account without one. */
  findRoom(account: string): Promise<BatchRoom>;
  /**
   * Changes the room of an account atomically as `decide` returns. `next` is written only if the room has not changed in the meantime;
   * otherwise `decide` is called again.
   */
  changeRoom<Result>(account: string, decide: DecideRoom<Result>): Promise<Result>;
  /** The same as a change by `takeBytes`. Calls at once do not wait for each other. */
  takeBytes(account: string, wanted: WantedBytes): Promise<Taking>;
}

/** Batches that have ended, and whose event still has to be created. The update that ends a batch also marks it. */
export interface EndedBatches {
  /** Lists up to `limit` of them, in order of their ids. */
  listEndedBatches(limit: number): Promise<Batch[]>;
  /** Removes the marks of these batches. Idempotent. */
  forgetEndedBatches(ids: readonly string[]): Promise<void>;
}

/** Lines are numbered from 1. */
export interface LineRecords {
  /** Writes results, each once. Returns the stored results of these lines, in the same order: the given one, or an earlier one. */
  insertResults(results: readonly BatchResult[]): Promise<BatchResult[]>;
  /** Returns undefined if the batch does not exist. */
  findLine(batch: string, line: number): Promise<BatchLine | undefined>;
  /** Lists results in order of their lines. Returns fewer than `limit` also if their bodies exceed 8 MiB, and none only at the end. */
  listResults(batch: string, page: { after: number; limit: number }): Promise<BatchResult[]>;
  countResults(batch: string): Promise<{ completed: number; failed: number }>;
  /** Lists the numbers of all lines from this one on that have a result, in order. */
  listEndedLines(batch: string, from: number): Promise<number[]>;
  /**
   * Records the next request of a line. `retry.number` must be one more than the recorded number (1 if none is recorded); otherwise nothing
   * changes. Then it returns false, unless the same request is already recorded.
   */
  recordRetry(retry: BatchRetry): Promise<boolean>;
  /** Lists retries in order of their lines. */
  listRetries(batch: string): Promise<BatchRetry[]>;
  /** Removes about `limit` results and retries at most; returns false while there may be more. */
  removeResults(batch: string, limit: number): Promise<boolean>;
}
