import { z } from 'zod';
import type { Collection, Documents, OpenDocuments } from '../documents.ts';
import { accountsOf } from './account-store.ts';
import { type AuditPage, type AuditRecord, auditRecordSchema, idRangeOf, pageOf } from './audit-records.ts';
import { notePlanFile, planFileHistoryId, planFileHistoryOf } from './plan-file-history.ts';
import { codesOf } from './top-up-codes.ts';

export type CopiedAudit = { copied: number; last: string | undefined; unreadable: readonly string[] };

const recordsOf = {
  name: 'audit_records',
  schema: auditRecordSchema,
  id: 'id',
  indexes: {
    byAccount: { fields: ['account'] },
    byActor: { fields: ['actor'] },
    byKind: { fields: ['kind'] },
    byAccountAndActor: { fields: ['account', 'actor'] },
    byAccountAndKind: { fields: ['account', 'kind'] },
    byActorAndKind: { fields: ['actor', 'kind'] },
    byAll: { fields: ['account', 'actor', 'kind'] },
  },
} as const satisfies Collection;

export const auditCollections = [recordsOf, planFileHistoryOf];

const outboxSchema = z.array(auditRecordSchema);
/** Many documents have records in their outboxes only if copying has failed for long. */
const [outboxesAtOnce, copiesAtOnce] = [100, 10];

type Outbox = readonly { id: string }[];
type Records = Documents<AuditRecord, keyof typeof recordsOf.indexes>;

/**
 * The audit trail: a record of every change of settings and keys, of every action of an operator, and of every plan file in force. Records
 * are never removed or replaced. The update that makes a change stores its record in the same step, in an outbox in the document that it
 * changes. A record leaves the outbox once it is copied under its own id. So no kill, at any instant, loses or duplicates a record
 * (contract.md#r10-audit-outbox, decisions.md#audit-records-by-an-outbox-in-the-account).
 */
export function createAuditStore(open: OpenDocuments) {
  const records = open(recordsOf);
  const planFiles = open(planFileHistoryOf);
  const accounts = createOutboxes(records, open(accountsOf));
  const codes = createOutboxes(records, open(codesOf));

  async function listWaiting(page: AuditPage): Promise<AuditRecord[]> {
    if (page.account !== undefined) return accounts.read(page.account);
    const ofPlanFiles = await readOutbox(planFiles, planFileHistoryId);
    return codes.addWaiting(page, await accounts.addWaiting(page, ofPlanFiles));
  }

  return {
    /** Lists records, newest first, including those in outboxes. */
    async listAudit(page: AuditPage): Promise<AuditRecord[]> {
      // The waiting records are read first: a record that is copied in between is then found twice, not missed.
      const waiting = await listWaiting(page);
      return pageOf(page, waiting, await listKept(records, page));
    },

    /** Copies the waiting records of one account. Idempotent. */
    copyAudit: async (account: string): Promise<void> => void (await accounts.copy(account)),

    /** Copies the waiting records of one top-up code. Idempotent. */
    copyCodeAudit: async (code: string): Promise<void> => void (await codes.copy(code)),

    /**
     * Notes a plan file in force, as `notePlanFile` decides. The record is copied, or waits in the history if that fails; then the call
     * fails, and can be repeated. Idempotent.
     */
    async notePlanFile(...noted: Parameters<typeof notePlanFile>): Promise<number> {
      const number = await planFiles.change(planFileHistoryId, notePlanFile(...noted));
      await copyOutbox(records, planFiles, planFileHistoryId);
      return number;
    },

    /**
     * Copies the waiting records of the next `limit` accounts after this one that have any, in order of their ids. `copied` counts records.
     * `last` is the last of these accounts, undefined after the last account of all. Accounts in `unreadable` have an outbox that
     * cannot be read; they remain unchanged. Idempotent.
     */
    copyAuditAfter: accounts.copyAfter,

    /** The same for top-up codes. */
    copyCodeAuditAfter: codes.copyAfter,
  };
}

export type AuditStore = ReturnType<typeof createAuditStore>;

function listKept(records: Records, page: AuditPage): Promise<AuditRecord[]> {
  const { account, actor, kind, after: id, limit } = page;
  const after = id === undefined ? undefined : { id };
  const list = (index: keyof typeof recordsOf.indexes | 'id', ...is: (string | readonly string[])[]) =>
    records.list(index, { is, ...idRangeOf(page), after, order: 'desc', limit });
  if (account !== undefined && actor !== undefined)
    return kind === undefined ? list('byAccountAndActor', account, actor) : list('byAll', account, actor, kind);
  if (account !== undefined)
    return kind === undefined ? list('byAccount', account) : list('byAccountAndKind', account, kind);
  if (actor !== undefined) return kind === undefined ? list('byActor', actor) : list('byActorAndKind', actor, kind);
  return kind === undefined ? list('id') : list('byKind', kind);
}

/** The outboxes of a collection, of which an index has those with records. */
function createOutboxes<Document extends { id: string; outbox: Outbox }>(
  records: Records,
  documents: Documents<Document, 'withOutbox'>,
) {
  const copy = (id: string) => copyOutbox(records, documents, id);

  return {
    read: (id: string): Promise<AuditRecord[]> => readOutbox(documents, id),
    copy,

    /** Adds the records that wait to these. Keeps only as many as the page can show. */
    async addWaiting(page: AuditPage, waiting: readonly AuditRecord[]): Promise<AuditRecord[]> {
      let all = [...waiting];
      for (let after = { id: '' }; ; ) {
        const found = await documents.listFields('withOutbox', ['id', 'outbox'], { after, limit: outboxesAtOnce });
        all = pageOf(
          page,
          all,
          found.flatMap(({ outbox }) => outboxSchema.parse(outbox)),
        );
        const last = found.at(-1);
        if (last === undefined || found.length < outboxesAtOnce) return all;
        after = { id: last.id };
      }
    },

    async copyAfter(after: string, limit: number): Promise<CopiedAudit> {
      const found = await documents.listFields('withOutbox', ['id'], { after: { id: after }, limit });
      const unreadable: string[] = [];
      let copied = 0;
      const copyOrNote = async ({ id }: { id: string }) => {
        try {
          const moved = await copy(id);
          copied += moved;
        } catch (error) {
          if (!(error instanceof z.ZodError)) throw error;
          unreadable.push(id);
        }
      };
      for (let from = 0; from < found.length; from += copiesAtOnce)
        await Promise.all(found.slice(from, from + copiesAtOnce).map(copyOrNote));
      return { copied, last: found.length < limit ? undefined : found.at(-1)?.id, unreadable };
    },
  };
}

type Outboxes<Document> = Pick<Documents<Document & { outbox: Outbox }>, 'find' | 'change'>;

async function readOutbox<Document>(documents: Pick<Outboxes<Document>, 'find'>, id: string): Promise<AuditRecord[]> {
  return outboxSchema.parse((await documents.find(id))?.outbox ?? []);
}

/** Inserts the records first, safe from a failover, then removes them from the outbox. Returns their number. */
async function copyOutbox<Document>(records: Records, documents: Outboxes<Document>, id: string): Promise<number> {
  const copied = await readOutbox(documents, id);
  if (copied.length === 0) return 0;
  const known = await records.insert(copied);
  if (known.length > 0) await records.findAll(known, { isCertain: true });
  const ids = new Set(copied.map((record) => record.id));
  await documents.change(id, (kept) => ({
    result: undefined,
    ...(kept && { next: { ...kept, outbox: kept.outbox.filter((record) => !ids.has(record.id)) } }),
  }));
  return copied.length;
}
