import { z } from 'zod';
import type { Collection, OpenDocuments } from '../documents.ts';
import { accountsOf } from './account-store.ts';
import { type AuditPage, type AuditRecord, auditRecordSchema, pageOf } from './audit-records.ts';

export type CopiedAudit = { copied: number; last: string | undefined; unreadable: readonly string[] };

const recordsOf = {
  name: 'audit_records',
  schema: auditRecordSchema,
  id: 'id',
  indexes: {
    byAccount: { fields: ['account'] },
    byActor: { fields: ['actor'] },
    byBoth: { fields: ['account', 'actor'] },
  },
} as const satisfies Collection;

export const auditCollections = [recordsOf];

const outboxSchema = z.array(auditRecordSchema);
/** Many accounts have records in their outboxes only if copying has failed for long. */
const [outboxesAtOnce, copiesAtOnce] = [100, 10];

/**
 * The audit trail: a record of every change of settings and of every action of an operator. Records are never removed or replaced. The
 * update that makes a change stores its record in the same step, in an outbox in the account's document. A record leaves the outbox once it
 * is copied under its own id. So no kill, at any instant, loses or duplicates a record (contract.md#r10-audit-outbox,
 * decisions.md#audit-records-by-an-outbox-in-the-account).
 */
export function createAuditStore(open: OpenDocuments) {
  const [accounts, records] = [open(accountsOf), open(recordsOf)];

  /** Keeps only as many as the page can show. */
  async function listWaiting(page: AuditPage): Promise<AuditRecord[]> {
    if (page.account !== undefined) return outboxSchema.parse((await accounts.find(page.account))?.outbox ?? []);
    let waiting: AuditRecord[] = [];
    for (let after = { id: '' }; ; ) {
      const found = await accounts.listFields('withOutbox', ['id', 'outbox'], { after, limit: outboxesAtOnce });
      waiting = pageOf(
        page,
        waiting,
        found.flatMap(({ outbox }) => outboxSchema.parse(outbox)),
      );
      const last = found.at(-1);
      if (last === undefined || found.length < outboxesAtOnce) return waiting;
      after = last;
    }
  }

  function listKept({ account, actor, after: id, limit }: AuditPage): Promise<AuditRecord[]> {
    const page = { after: id === undefined ? undefined : { id }, order: 'desc', limit } as const;
    if (account !== undefined && actor !== undefined) return records.list('byBoth', { is: [account, actor], ...page });
    if (account !== undefined) return records.list('byAccount', { is: [account], ...page });
    return actor === undefined ? records.list('id', page) : records.list('byActor', { is: [actor], ...page });
  }

  /** Inserts the records first, safe from a failover, then removes them from the outbox. Returns their number. */
  async function copy(id: string): Promise<number> {
    const copied = outboxSchema.parse((await accounts.find(id))?.outbox ?? []);
    if (copied.length === 0) return 0;
    const known = await records.insert(copied);
    if (known.length > 0) await records.findAll(known, { isCertain: true });
    const ids = new Set(copied.map((record) => record.id));
    await accounts.change(id, (kept) => ({
      result: undefined,
      ...(kept && { next: { ...kept, outbox: kept.outbox.filter((record) => !ids.has(record.id)) } }),
    }));
    return copied.length;
  }

  return {
    /** Lists records, newest first, including those in outboxes. */
    async listAudit(page: AuditPage): Promise<AuditRecord[]> {
      // The waiting records are read first: a record that is copied in between is then found twice, not missed.
      const waiting = await listWaiting(page);
      return pageOf(page, waiting, await listKept(page));
    },

    /** Copies the waiting records of one account. Idempotent. */
    copyAudit: async (account: string): Promise<void> => void (await copy(account)),

    /**
     * Copies the waiting records of the next `limit` accounts after this one that have any, in order of their ids. `copied` counts records.
     * `last` is the last of these accounts, undefined after the last account of all. Accounts in `unreadable` have an outbox that
     * cannot be read; they remain unchanged. Idempotent.
     */
    async copyAuditAfter(account: string, limit: number): Promise<CopiedAudit> {
      const found = await accounts.listFields('withOutbox', ['id'], { after: { id: account }, limit });
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

export type AuditStore = ReturnType<typeof createAuditStore>;
