import { resolve } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { z } from 'zod';
import { type Account, accountSchema, isRemoved, writtenAccountSchema } from '../accounts/account.ts';
import { newestRecord } from '../accounts/audit-records.ts';
import type { AuditStore } from '../accounts/audit-store.ts';
import type { Decide } from '../accounts/decide.ts';
import type { NameStore } from '../accounts/name-store.ts';
import { captureDecision } from '../adapters/capture-decision.ts';
import { storeUnavailable } from '../adapters/store-errors.ts';
import { storedJson } from '../adapters/stored-json.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import type { FileStore } from '../files/file-store.ts';
import { createFolderFileStore } from '../files/folder-file-store.ts';
import type { AccountPage, KeyOwner, KeySearch, KeyUse, ListedAccount, Store } from '../store.ts';
import type { TopUpCodeStore } from '../top-up-codes/top-up-code-store.ts';
import type { UsageDay, UsageDetail } from '../usage/usage-details.ts';
import type { RecordPage, UsageRecord } from '../usage/usage-record.ts';
import { createUsageStore, type RecomputedUsage, type UsageStore } from '../usage/usage-store.ts';
import type { UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import type { WebhookStore } from '../webhooks/webhook-store.ts';
import { createSqliteBatchStore } from './batches/sqlite-batch-store.ts';
import { type DurableCommits, openDurableCommits } from './database/durable-commits.ts';
import { openSqlite } from './database/open-sqlite.ts';
import { createSqliteCalls, type SqliteCalls } from './database/sqlite-calls.ts';
import { createSqliteAccounts, type SqliteAccounts } from './sqlite-accounts.ts';
import { createSqliteAudit, type InsertAuditRecord } from './sqlite-audit.ts';
import { createSqliteKeys } from './sqlite-keys.ts';
import { createSqliteNames } from './sqlite-names.ts';
import { createSqliteTopUpCodes } from './sqlite-top-up-codes.ts';
import { createSqliteUsage } from './sqlite-usage.ts';
import { createSqliteWebhooks } from './webhooks/sqlite-webhooks.ts';

const accountRow = z.object({ document: storedJson.pipe(accountSchema) });
const versionRow = z.object({ version: z.string() });

const selectAccount = 'SELECT document FROM accounts WHERE id = ?';

const writeAccount = `INSERT INTO accounts (id, document) VALUES (?, ?)
  ON CONFLICT (id) DO UPDATE SET document = excluded.document`;

type Options = { openCommits?: (path: string) => DurableCommits };

/** The store in one SQLite file, with a folder of files beside it, on one machine. Any number of that machine's processes can open it. */
export class SqliteStore implements Store {
  readonly audit: AuditStore;
  readonly names: NameStore;
  readonly topUpCodes: TopUpCodeStore;
  readonly batches: BatchStore;
  readonly files: FileStore;
  readonly usageDetails: UsageStore['usageDetails'];
  readonly webhooks: WebhookStore;
  readonly #database: DatabaseSync;
  readonly #commits: DurableCommits;
  readonly #calls: SqliteCalls;
  readonly #selectAccount: StatementSync;
  readonly #writeAccount: StatementSync;
  readonly #readFile: StatementSync;
  readonly #insertAuditRecord: InsertAuditRecord;
  readonly #accounts: SqliteAccounts;
  readonly #usage: UsageStore;
  readonly #names: ReturnType<typeof createSqliteNames>;
  readonly #keys: ReturnType<typeof createSqliteKeys>;

  /** Creates the file and its folder if they are missing. Throws an error for the operator if it cannot be used. */
  static async open(file: string, { openCommits = openDurableCommits }: Options = {}): Promise<SqliteStore> {
    const path = resolve(file);
    return new SqliteStore(await openSqlite(file), path, openCommits(path));
  }

  private constructor(database: DatabaseSync, path: string, commits: DurableCommits) {
    this.#database = database;
    this.#commits = commits;
    this.#calls = createSqliteCalls(database, this.#commits);
    this.#selectAccount = database.prepare(selectAccount);
    this.#writeAccount = database.prepare(writeAccount);
    this.#readFile = database.prepare('PRAGMA user_version'); // unlike SELECT 1, it reads the file
    ({ store: this.audit, insertRecord: this.#insertAuditRecord } = createSqliteAudit(database, this.#calls));
    this.#keys = createSqliteKeys(database);
    this.#names = createSqliteNames(database, this.#calls);
    this.names = this.#names.store;
    this.#accounts = createSqliteAccounts(database, this.#calls, {
      keys: this.#keys,
      names: this.#names,
    });
    this.topUpCodes = createSqliteTopUpCodes(database, this.#calls);
    this.#usage = createUsageStore(createSqliteUsage(database, this.#calls));
    this.usageDetails = this.#usage.usageDetails;
    this.batches = createSqliteBatchStore(database, this.#calls);
    this.webhooks = createSqliteWebhooks(database, this.#calls);
    this.files = createFolderFileStore(`${path}-files`, { isOpen: () => database.isOpen });
  }

  async describe(): Promise<string> {
    const row = await this.#calls.read(() => this.#database.prepare('SELECT sqlite_version() AS version').get());
    return `sqlite ${versionRow.parse(row).version}`;
  }

  async ping(): Promise<void> {
    try {
      this.#commits.check();
    } catch (error) {
      throw storeUnavailable(error);
    }
    await this.#calls.read(() => this.#readFile.get());
  }

  /** Opening the file creates all of them. */
  async listMissingIndexes(): Promise<string[]> {
    await this.ping();
    return [];
  }

  async findAccount(id: string): Promise<Account | undefined> {
    return this.#calls.read(() => this.#read(id));
  }

  listAccounts(page: AccountPage): Promise<ListedAccount[]> {
    return this.#accounts.listAccounts(page);
  }

  listRemovals(page: { after: string; limit: number }): Promise<string[]> {
    return this.#accounts.listRemovals(page);
  }

  findKeyOwner(hashes: readonly string[]): Promise<KeyOwner | undefined> {
    return this.#accounts.findKeyOwner(hashes);
  }

  findAccountsByKey(key: KeySearch): Promise<string[]> {
    return this.#accounts.findAccountsByKey(key);
  }

  /** Decides on a plain read first: the lock that all writers share is taken only if there is something to write. */
  async changeAccount<Result>(id: string, decide: Decide<Result>): Promise<Result> {
    const decideSafely = captureDecision(decide);
    const decision = await this.#calls.read(() => decideSafely(this.#read(id)));
    if (decision.next !== undefined) return (await this.#calls.write(() => this.#change(id, decideSafely)))();
    await this.#calls.untilDurable();
    return decision.result();
  }

  removeAccount(account: Parameters<Store['removeAccount']>[0]): Promise<boolean> {
    return this.#accounts.removeAccount(account);
  }

  recordKeyUse(uses: readonly KeyUse[]): Promise<void> {
    return this.#accounts.recordKeyUse(uses);
  }

  recordUsage(records: readonly UsageRecord[]): Promise<void> {
    return this.#usage.recordUsage(records);
  }

  findUsageSum(account: string, month: string): Promise<UsageSum | undefined> {
    return this.#usage.findUsageSum(account, month);
  }

  findUsageDays(account: string, month: string): Promise<UsageDay[]> {
    return this.#usage.findUsageDays(account, month);
  }

  findKeyUsage(key: UsageMonth & { keyId: string }): Promise<UsageDetail[]> {
    return this.#usage.findKeyUsage(key);
  }

  findUsageByKey(month: UsageMonth): ReturnType<UsageStore['findUsageByKey']> {
    return this.#usage.findUsageByKey(month);
  }

  findUsageRecord(requestId: string): Promise<UsageRecord | undefined> {
    return this.#usage.findUsageRecord(requestId);
  }

  findUsageByAnswer(account: string, answerId: string): Promise<UsageRecord | undefined> {
    return this.#usage.findUsageByAnswer(account, answerId);
  }

  listUsageRecords(account: string, page: RecordPage): Promise<UsageRecord[]> {
    return this.#usage.listUsageRecords(account, page);
  }

  recomputeUsage(account: string, month: string, upTo: string): Promise<RecomputedUsage> {
    return this.#usage.recomputeUsage(account, month, upTo);
  }

  repairUsage(account: string, month: string, upTo: string): Promise<boolean> {
    return this.#usage.repairUsage(account, month, upTo);
  }

  listUsageMonths(page: Parameters<UsageStore['listUsageMonths']>[0]): Promise<UsageMonth[]> {
    return this.#usage.listUsageMonths(page);
  }

  removeUsageBefore(month: string): Promise<number> {
    return this.#usage.removeUsageBefore(month);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#database.isOpen) this.#database.close();
    await this.#commits[Symbol.asyncDispose]();
  }

  #change<Result>(id: string, decide: Decide<Result>): Result {
    const kept = this.#read(id);
    const { result, next } = decide(kept);
    if (next !== undefined) {
      this.#writeAccount.run(id, JSON.stringify(writtenAccountSchema.parse(next)));
      if (next.keys !== kept?.keys) this.#keys.write(id, next.keys);
      if (isRemoved(next)) this.#names.remove(id);
      const record = newestRecord(next);
      if (record !== undefined) this.#insertAuditRecord(record);
    }
    return result;
  }

  #read(id: string): Account | undefined {
    const row = this.#selectAccount.get(id);
    if (row === undefined) return undefined;
    const { document } = accountRow.parse(row);
    return { ...document, keys: this.#keys.withUses(id, document.keys) };
  }
}
