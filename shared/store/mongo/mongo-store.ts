import { type Collection, MongoServerError } from 'mongodb';
import { z } from 'zod';
import { lastWith, rangeOf } from '../account-pages.ts';
import type { Account } from '../accounts/account.ts';
import type { AuditStore } from '../accounts/audit-store.ts';
import type { Decide } from '../accounts/decide.ts';
import type { NameStore } from '../accounts/name-store.ts';
import { captureDecision } from '../adapters/capture-decision.ts';
import { keyHashTaken } from '../adapters/store-errors.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import type { FileStore } from '../files/file-store.ts';
import { readKeyOwner } from '../key-owner.ts';
import type { AccountPage, KeyOwner, KeySearch, KeyUse, ListedAccount, Store } from '../store.ts';
import type { TopUpCodeStore } from '../top-up-codes/top-up-code-store.ts';
import type { UsageDay, UsageDetail } from '../usage/usage-details.ts';
import type { RecordPage, UsageRecord } from '../usage/usage-record.ts';
import { createUsageStore, type RecomputedUsage, type UsageStore } from '../usage/usage-store.ts';
import type { UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import type { WebhookStore } from '../webhooks/webhook-store.ts';
import { batchIndexes } from './batches/mongo-batch-documents.ts';
import { createMongoBatches } from './batches/mongo-batches.ts';
import { createMongoFiles } from './batches/mongo-files.ts';
import { createMongoLines } from './batches/mongo-lines.ts';
import { createMongoRooms } from './batches/mongo-rooms.ts';
import { createMongoCalls, type MongoCalls } from './database/mongo-calls.ts';
import { changeGuarded } from './database/mongo-change.ts';
import { duplicateKey } from './database/mongo-duplicates.ts';
import { type CollectionIndexes, listMissingIndexes } from './database/mongo-indexes.ts';
import { createGridFsFileStore } from './gridfs-file-store.ts';
import { fileIndexes } from './gridfs-versions.ts';
import {
  type AccountDocument,
  accountIndexes,
  accountsOf,
  liveKey,
  noteUse,
  readAccount,
  readListedAccount,
  toNewDocument,
  toUpdate,
  unchanged,
  withId,
} from './mongo-account-documents.ts';
import { auditIndexes, createMongoAudit } from './mongo-audit.ts';
import { detailIndexes } from './mongo-detail-documents.ts';
import { createMongoNames } from './mongo-names.ts';
import { createMongoTopUpCodes, topUpCodeIndexes } from './mongo-top-up-codes.ts';
import { createMongoUsage } from './mongo-usage.ts';
import { usageIndexes } from './mongo-usage-documents.ts';
import { webhookIndexes } from './webhooks/mongo-webhook-documents.ts';
import { createMongoWebhooks } from './webhooks/mongo-webhooks.ts';

const buildInfoSchema = z.object({ version: z.string() });

/** The store in a MongoDB database. A call that failed with `SERVICE_UNAVAILABLE` may have been executed. */
export class MongoStore implements Store {
  readonly audit: AuditStore;
  readonly names: NameStore;
  readonly topUpCodes: TopUpCodeStore;
  readonly batches: BatchStore;
  readonly files: FileStore;
  readonly usageDetails: UsageStore['usageDetails'];
  readonly webhooks: WebhookStore;
  readonly #calls: MongoCalls;
  readonly #accounts: Collection<AccountDocument>;
  readonly #usage: UsageStore;

  /** Throws if the URL is invalid or names no database. */
  constructor(url: string, options: Omit<Parameters<typeof createMongoCalls>[1], 'indexes'>) {
    this.#calls = createMongoCalls(url, { ...options, indexes: allIndexes });
    this.#accounts = accountsOf(this.#calls.database);
    this.#usage = createUsageStore(createMongoUsage(this.#calls));
    this.usageDetails = this.#usage.usageDetails;
    this.audit = createMongoAudit(this.#calls);
    this.names = createMongoNames(this.#calls);
    this.topUpCodes = createMongoTopUpCodes(this.#calls);
    this.batches = {
      ...createMongoFiles(this.#calls),
      ...createMongoBatches(this.#calls),
      ...createMongoRooms(this.#calls),
      ...createMongoLines(this.#calls),
    };
    this.files = createGridFsFileStore(this.#calls);
    this.webhooks = createMongoWebhooks(this.#calls);
  }

  async describe(): Promise<string> {
    const { call, database, topology } = this.#calls;
    const answer: unknown = await call(() => database.command({ buildInfo: 1 }));
    return `mongodb ${buildInfoSchema.parse(answer).version} (${topology()})`;
  }

  async ping(): Promise<void> {
    await this.#calls.call(() => this.#calls.database.command({ ping: 1 }));
  }

  async listMissingIndexes(): Promise<string[]> {
    return this.#calls.call(() => listMissingIndexes(this.#calls.database, allIndexes));
  }

  async findAccount(id: string): Promise<Account | undefined> {
    return this.#calls.call(() => this.#read(id));
  }

  async listAccounts({ limit, ...page }: AccountPage): Promise<ListedAccount[]> {
    const { from, includesFrom, end } = rangeOf(page);
    const isKnown = { $nor: [{ 'removal.isDone': true, suspended: false }] };
    const _id = { [includesFrom ? '$gte' : '$gt']: from, ...(end !== undefined && { $lt: end }) };
    const projection = { plan: 1, overageEnabled: 1, suspended: 1, createdAt: 1, keyUses: 1 };
    const options = { projection, sort: { _id: 1 }, limit, ...this.#calls.durable() } as const;
    const found = await this.#calls.call(() => this.#accounts.find({ _id, ...isKnown }, options).toArray());
    return found.map(readListedAccount);
  }

  async listRemovals({ after, limit }: { after: string; limit: number }): Promise<string[]> {
    const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit, ...this.#calls.durable() } as const;
    const wanted = { 'removal.isDone': false, _id: { $gt: after } };
    const found = await this.#calls.call(() => this.#accounts.find(wanted, options).toArray());
    return found.map(({ _id }) => _id);
  }

  async findKeyOwner(hashes: readonly string[]): Promise<KeyOwner | undefined> {
    const hash = { $in: [...hashes] };
    const status = { plan: 1, suspended: 1, version: 1, overageEnabled: 1, topUp: 1, guest: 1 } as const;
    const options = { projection: { ...status, keys: { $elemMatch: { hash } } }, ...this.#calls.durable() };
    const found = await this.#calls.call(() => this.#accounts.findOne({ keyHashes: hash }, options));
    return found === null ? undefined : readKeyOwner(withId(found), hashes);
  }

  async findAccountsByKey({ limit, ...key }: KeySearch): Promise<string[]> {
    const filter = liveKey('id' in key ? key : { display: { $gte: key.start, $lte: lastWith(key.start) } });
    const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit, ...this.#calls.durable() } as const;
    const found = await this.#calls.call(() => this.#accounts.find(filter, options).toArray());
    return found.map(({ _id }) => _id);
  }

  async changeAccount<Result>(id: string, decide: Decide<Result>): Promise<Result> {
    const change = {
      read: () => this.#read(id),
      decide: captureDecision(decide),
      write: (next: Account, decidedOn: Account | undefined) => this.#write(next, decidedOn),
    };
    const result = await this.#calls.call((signal) => changeGuarded(change, signal));
    return result();
  }

  async removeAccount(account: Parameters<Store['removeAccount']>[0]): Promise<boolean> {
    const removed = await this.#calls.call(() => this.#accounts.deleteOne(unchanged(account)));
    return removed.deletedCount === 1;
  }

  async recordKeyUse(uses: readonly KeyUse[]): Promise<void> {
    if (uses.length === 0) return;
    const notes = uses.map(noteUse);
    await this.#calls.call(() => this.#accounts.bulkWrite(notes, { ordered: false }));
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
    await this.#calls[Symbol.asyncDispose]();
  }

  async #read(id: string): Promise<Account | undefined> {
    const found = await this.#accounts.findOne({ _id: id }, this.#calls.durable());
    return found === null ? undefined : readAccount(found);
  }

  /** Returns false if the account has changed since the decision. */
  async #write(next: Account, decidedOn: Account | undefined): Promise<boolean> {
    const _id = next.id;
    try {
      if (decidedOn === undefined) return (await this.#accounts.insertOne(toNewDocument(next))).acknowledged;
      const guard = { _id, version: decidedOn.version };
      return (await this.#accounts.updateOne(guard, toUpdate(next, decidedOn))).matchedCount === 1;
    } catch (error) {
      if (!(error instanceof MongoServerError) || error.code !== duplicateKey) throw error;
      // An insert also fails like this if the account was created in the meantime, durable or not. The error messages differ between
      // servers.
      const local = { readConcern: { level: 'local' as const } };
      if (decidedOn === undefined && (await this.#accounts.findOne({ _id }, local)) !== null) return false;
      throw keyHashTaken(error);
    }
  }
}

export const allIndexes: readonly CollectionIndexes[] = [
  ...[...usageIndexes, detailIndexes, ...batchIndexes, ...fileIndexes],
  ...[accountIndexes, auditIndexes, topUpCodeIndexes, ...webhookIndexes],
];
