import { z } from 'zod';
import { auditId, type AuditRecord as StoredRecord } from '../../shared/store/records/audit-records.ts';
import { exampleList, limitParameter, listOf, presentList } from '../api/lists.ts';
import { displayName, time } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import { auditedChange } from './accounts.ts';

const accountName = z.string().max(300).optional();

const auditQuery = z.strictObject({
  account: accountName.meta({ description: 'The account or device that was changed.', examples: ['user:alice'] }),
  actor: accountName.meta({ description: 'The account that made the change.', examples: ['user:olga'] }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(auditId, 'expected the id of an audit record')
    .optional()
    .meta({ description: 'The record before the first one to return: `last_id` of the previous page.' }),
});

const auditRecord = z.strictObject({
  id: z.string(),
  at: time,
  actor: z.string().meta({ description: 'The account that made the change.' }),
  address: z.string().nullable().meta({ description: 'The client address of the change; null: not stored.' }),
  account: z.string().meta({ description: 'The account or device that was changed.' }),
  change: auditedChange,
  reason: z.string().nullable(),
  actor_name: displayName,
  account_name: displayName,
});

export const auditRecordListSchema = named('AuditRecordList', listOf(auditRecord));

export type AuditRecord = z.infer<typeof auditRecord>;

const exampleRecord = {
  id: 'audit_01KJMMA2KV0000015QP5D3J9J9',
  at: '2026-03-02T10:30:00.000Z',
  actor: 'user:olga',
  address: '198.51.100.7',
  account: 'user:alice',
  change: { plan: { from: 'free', to: 'pro' } },
  reason: 'Signed the contract.',
};

export const auditRoutes: readonly Route[] = [
  /** The audit records, newest first. `after` can be any id, because ids sort by time. */
  route({
    id: 'listAuditRecords',
    method: 'GET',
    path: '/admin/audit',
    access: 'operator',
    tag: 'Operators',
    summary: 'List the audit records',
    description:
      'Every change of a plan, overage, top-up or suspension, and every key, batch or request that an operator has ended, newest first. Records are never removed or replaced. Pages stay stable while new records arrive.',
    query: auditQuery,
    answers: {
      description: 'A page of audit records.',
      schema: auditRecordListSchema,
      example: exampleList(exampleRecord),
    },
    async handle({ query: { limit, ...query } }, { store }) {
      const found = await store.audit.listAudit({ ...query, limit: limit + 1 });
      const names = await store.accounts.findNames([
        ...new Set(found.flatMap(({ actor, account }) => [actor, account])),
      ]);
      return presentList({ found, limit, present: (record) => present(record, names) });
    },
  }),
];

/** Records have no names: these are the present ones. */
function present({ id, at, ...record }: StoredRecord, names: ReadonlyMap<string, string>): AuditRecord {
  const [actorName, accountName] = [names.get(record.actor), names.get(record.account)];
  return {
    id,
    at: at.toISOString(),
    ...record,
    ...(actorName !== undefined && { actor_name: actorName }),
    ...(accountName !== undefined && { account_name: accountName }),
  };
}
