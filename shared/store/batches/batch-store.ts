import type { Batch, BatchResult, BatchRetry, BatchState, StoredFile } from '../../batches/batch.ts';

/** The newest first where no `order` is given; `after` is the id of the one before the first. */
export type Page = { limit: number; after?: string | undefined; order?: 'asc' | 'desc' | undefined };

/** What was decided of a batch; without `next` it stays as it is. */
export type BatchDecision<Result> = { result: Result; next?: Batch };
export type DecideBatch<Result> = (batch: Batch | undefined) => BatchDecision<Result>;

/**
 * A line, when it is about to be run: `result` where it has ended, `number` of its latest request, `retry` what was noted of that
 * unless it is the first. `state` and `open` are its batch's.
 */
export type BatchLine = {
  state: BatchState;
  open: boolean;
  number: number;
  retry: BatchRetry | undefined;
  result: BatchResult | undefined;
};

/**
 * `count` by state of batches that are open, a state that has none left out; of those `validating` or `in_progress`,
 * `oldestAt` is when the first was handed in, and `tokens` those of all their prompts, an estimate.
 */
export type BatchStats = {
  count: Partial<Record<BatchState, number>>;
  oldestAt: Date | undefined;
  tokens: number;
};

/** Files and batches, what came of their lines, and which of them were tried again (API F). Pages go by id. */
export interface BatchStore extends FileRecords, BatchRecords, LineRecords {}

export type FileCount = { files: number; bytes: number };

/** What is known of files; their bytes are the affair of `FileStore`. */
export interface FileRecords {
  /** False where there is a file of this id already. */
  insertFile(file: StoredFile): Promise<boolean>;
  findFile(id: string): Promise<StoredFile | undefined>;
  /** The `ready` ones of an account, of one purpose where it is given. */
  listFiles(account: string, page: Page & { purpose?: StoredFile['purpose'] | undefined }): Promise<StoredFile[]>;
  /** Changes it if it is in this state; false where it is not. */
  changeFile(
    id: string,
    from: StoredFile['state'],
    change: Partial<Omit<StoredFile, 'id' | 'account'>>,
  ): Promise<boolean>;
  /** What is known of it; idempotent. */
  removeFile(id: string): Promise<void>;
  /** All files of an account that are `ready`. */
  countFiles(account: string): Promise<FileCount>;
  /**
   * `ready` ones that have expired at this time, those `deleting`, and those `writing` that came into being before
   * `writingSince`. In order of their `expiresAt`, so that under a limit each comes to its turn.
   */
  listFilesToRemove(at: Date, writingSince: Date, limit: number): Promise<StoredFile[]>;
}

export interface BatchRecords {
  /** One of this id that is there already stays as it is, so that it can be repeated. */
  insertBatch(batch: Batch): Promise<void>;
  findBatch(id: string): Promise<Batch | undefined>;
  listBatches(account: string, page: Page): Promise<Batch[]>;
  /**
   * Changes one batch as `decide` says, atomically: what it decided is written only if the batch is still what it was decided
   * on, else it is asked again. `next` is written with the next `version`; `decide` leaves it as it is. Where there is no such
   * batch nothing is written.
   */
  changeBatch<Result>(id: string, decide: DecideBatch<Result>): Promise<Result>;
  /** The accounts that have open batches, each once, in no order. */
  listOpenAccounts(): Promise<string[]>;
  /** The open batches of these accounts, in order of their ids. */
  listOpenBatches(accounts: readonly string[]): Promise<Batch[]>;
  /** Whether an open batch that is not over has this file as its input. */
  isInputOfUnfinished(file: string): Promise<boolean>;
  /** An account's open batches that are not over, and the estimated tokens of all their prompts. */
  countUnfinished(account: string): Promise<{ batches: number; tokens: number }>;
  describeBatches(): Promise<BatchStats>;
}

/** Lines are numbered from 1. */
export interface LineRecords {
  /**
   * Writes results, each once. Resolves with those that stand for these lines now, in the same order: the given one, or the one
   * that was there before.
   */
  insertResults(results: readonly BatchResult[]): Promise<BatchResult[]>;
  /** Undefined where there is no such batch. */
  findLine(batch: string, line: number): Promise<BatchLine | undefined>;
  /** In order of their lines; fewer than `limit` also where their bodies are more than 8 MiB, none only at the end. */
  listResults(batch: string, page: { after: number; limit: number }): Promise<BatchResult[]>;
  countResults(batch: string): Promise<{ completed: number; failed: number }>;
  /** The numbers of all lines from this one on that have a result, in order. */
  listEndedLines(batch: string, from: number): Promise<number[]>;
  /**
   * Notes the next request of a line: `retry.number` is one more than what stands there (1 where nothing does), or nothing is
   * changed. False then, unless it is what stands there already.
   */
  recordRetry(retry: BatchRetry): Promise<boolean>;
  /** In order of their lines. */
  listRetries(batch: string): Promise<BatchRetry[]>;
  /** Removes results and retries, at most about so many; false while there may be more. */
  removeResults(batch: string, limit: number): Promise<boolean>;
}
