import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { pageOf } from '../accounts/audit-records.ts';
import { type AuditPage, type AuditRecord, type AuditStore, auditRecordSchema } from '../accounts/audit-store.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { refusedAsDuplicates } from './database/mongo-duplicates.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';
import { type AccountDocument, accountsOf, readWaiting, type WaitingAudit, withId } from './mongo-account-documents.ts';

const documentSchema = auditRecordSchema.omit({ id: true }).extend({ _id: z.string() });

type RecordDocument = z.infer<typeof documentSchema>;

function recordsOf(database: Db): Collection<RecordDocument> {
  return database.collection('audit_records', { ignoreUndefined: true });
}

export const auditIndexes: CollectionIndexes = {
  collection: 'audit_records',
  indexes: [index({ account: 1, _id: -1 }), index({ actor: 1, _id: -1 })],
};

/** An account with records in its outbox. */
const hasWaiting = { 'outbox.id': { $gt: '' } };

const projection = { outbox: 1 } as const;

/** Stores records in their own collection, which only grows. Until they are copied to it, they wait in their account's document. */
export function createMongoAudit(calls: MongoCalls): AuditStore {
  const { call, durable, database } = calls;
  const accounts = accountsOf(database);
  const records = recordsOf(database);
  const copy = createCopy(calls);

  /** Keeps only as many as the page can show: there are many only if copying has failed for long. */
  async function listWaiting(page: AuditPage, signal: AbortSignal): Promise<AuditRecord[]> {
    const filter = page.account === undefined ? hasWaiting : { _id: page.account };
    let waiting: AuditRecord[] = [];
    for await (const document of accounts.find(filter, { projection, ...durable() })) {
      signal.throwIfAborted();
      waiting = pageOf(page, waiting, readWaiting(document).records);
    }
    return waiting;
  }

  async function listKept({ account, actor, after, limit }: AuditPage): Promise<AuditRecord[]> {
    const filter = {
      ...(account !== undefined && { account }),
      ...(actor !== undefined && { actor }),
      ...(after !== undefined && { _id: { $lt: after } }),
    };
    const found = await records.find(filter, { sort: { _id: -1 }, limit, ...durable() }).toArray();
    return found.map((document) => auditRecordSchema.parse(withId(document)));
  }

  return {
    async listAudit(page) {
      // The waiting records are read first: a record that is copied in between is then found twice, not missed.
      const waiting = await call((signal) => listWaiting(page, signal));
      return pageOf(page, waiting, await call(() => listKept(page)));
    },

    async copyAudit(account) {
      await call(async (signal) => {
        const found = await accounts.findOne({ _id: account }, { projection, ...durable() });
        return found === null ? 0 : copy([readWaiting(found)], signal);
      });
    },

    copyAuditAfter: (account, limit) =>
      call(async (signal) => {
        const options = { projection, sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await accounts.find({ _id: { $gt: account }, ...hasWaiting }, options).toArray();
        const { waiting, unreadable } = readAllWaiting(found);
        const last = found.length < limit ? undefined : found.at(-1)?._id;
        return { copied: await copy(waiting, signal), last, unreadable };
      }),
  };
}

function createCopy({ durable, database }: MongoCalls) {
  const accounts = accountsOf(database);
  const records = recordsOf(database);

  /** An existing record must also be safe from a failover. */
  async function insert(copied: readonly AuditRecord[]): Promise<void> {
    const documents = copied.map(({ id: _id, ...fields }) => documentSchema.parse({ _id, ...fields }));
    const refused = await refusedAsDuplicates(records.insertMany(documents, { ordered: false }));
    if (refused.length === 0) return;
    const ids = refused.map((index) => documents[index]?._id ?? '');
    const found = await records.find({ _id: { $in: ids } }, { projection: { _id: 1 }, ...durable() }).toArray();
    if (found.length < ids.length) throw new Error('an existing record is not yet safe from a failover');
  }

  /** Inserts the records first, acknowledged by a majority, then removes them from the outbox. Returns the number of records. */
  return async function copy(found: readonly WaitingAudit[], signal: AbortSignal): Promise<number> {
    if (found.length === 0) return 0;
    const copied = found.flatMap(({ records }) => records);
    signal.throwIfAborted();
    if (copied.length > 0) await insert(copied);
    signal.throwIfAborted();
    await accounts.bulkWrite(found.map(takeOut), { ordered: false });
    return copied.length;
  };
}

/** Reads the waiting records of accounts. Returns the ids of unreadable accounts apart, so that they do not stop the others. */
function readAllWaiting(found: readonly AccountDocument[]): { waiting: WaitingAudit[]; unreadable: string[] } {
  const unreadable: string[] = [];
  const waiting = found.flatMap((document) => {
    try {
      return [readWaiting(document)];
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      unreadable.push(document._id);
      return [];
    }
  });
  return { waiting, unreadable };
}

/** It does not undo a concurrent push. */
function takeOut({ account, records }: WaitingAudit) {
  const update = { $pull: { outbox: { id: { $in: records.map(({ id }) => id) } } } };
  return { updateOne: { filter: { _id: account }, update } };
}
