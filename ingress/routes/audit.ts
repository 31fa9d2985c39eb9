import { z } from 'zod';
import {
  type AuditPage,
  auditId,
  auditKinds,
  type AuditRecord as StoredRecord,
} from '../../shared/store/records/audit-records.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { answerCsvFile, csvLineOf, textCell, whileConnected } from '../api/csv-file.ts';
import { exampleList, limitParameter, listOf, presentList } from '../api/lists.ts';
import { count, displayName, givenTime, time } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import { changeOfAccount } from './accounts.ts';

const accountName = z.string().max(300).optional();

const auditQuery = z.strictObject({
  account: accountName.meta({ description: 'The account or device that was changed.', examples: ['user:alice'] }),
  actor: accountName.meta({ description: 'The account that made the change.', examples: ['user:olga'] }),
  kind: z.enum(auditKinds).optional().meta({ description: 'Only records about this.' }),
  start: givenTime.optional().meta({ description: 'Only records of this time or later, UTC.' }),
  end: givenTime.optional().meta({ description: 'Only records before this time, UTC.' }),
  format: z
    .enum(['json', 'csv'])
    .default('json')
    .meta({ description: 'With `csv`, a file with all records that match, without `limit`.' }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(auditId, 'expected the id of an audit record')
    .optional()
    .meta({ description: 'The record before the first one to return: `last_id` of the previous page.' }),
});

const code = z.strictObject({
  id: z.string().meta({ description: 'Of several, the first one.' }),
  tokens: count,
  note: z.string().nullable(),
});

const names = z.array(z.string());

const section = z
  .strictObject({
    added: names,
    removed: names,
    changed: names,
    more: count.meta({ description: 'How many names are left out.' }),
  })
  .optional();

const planFile = z.strictObject({
  from: z.string().nullable().meta({ description: 'The generation before it; null: none is known.' }),
  to: z.string().meta({ description: 'The generation that is in force.' }),
  models: section,
  backends: section,
  plans: section,
  others: names.meta({ description: 'Further sections that differ.' }),
});

const auditRecord = z.strictObject({
  id: z.string(),
  at: time,
  kind: z.enum(auditKinds),
  actor: z.string().nullable().meta({ description: 'The account that made the change; null: the service.' }),
  address: z.string().nullable().meta({ description: 'The client address of the change; null: not stored.' }),
  account: z.string().nullable().meta({ description: 'The account or device that was changed; null: none.' }),
  change: changeOfAccount.extend({
    codesCreated: code
      .extend({ count })
      .optional()
      .meta({ description: 'How many top-up codes were created, and the tokens of each.' }),
    codeRevoked: code.optional(),
    planFile: planFile
      .optional()
      .meta({ description: 'A plan file that came into force, and which names in it differ.' }),
  }),
  reason: z.string().nullable(),
  actor_name: displayName,
  account_name: displayName,
});

export const auditRecordListSchema = named('AuditRecordList', listOf(auditRecord));

export type AuditRecord = z.infer<typeof auditRecord>;

const exampleRecord = {
  id: 'audit_01KJMMA2KV0000015QP5D3J9J9',
  at: '2026-03-02T10:30:00.000Z',
  kind: 'account',
  actor: 'user:olga',
  address: '198.51.100.7',
  account: 'user:alice',
  change: { plan: { from: 'free', to: 'pro' } },
  reason: 'Signed the contract.',
} as const;

const columns = ['id', 'at', 'kind', 'actor', 'address', 'account', 'change', 'reason'] as const;

const exampleCsv = `${columns.join()}\r
audit_01KJMMA2KV0000015QP5D3J9J9,2026-03-02T10:30:00.000Z,account,user:olga,198.51.100.7,user:alice,"{""suspended"":true}",\r
`;

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
      'Newest first: every change of a plan, overage, top-up or suspension; every key of a person that was made, changed, rotated or revoked; top-up codes that were created, revoked or redeemed; what operators have ended or paused; and every plan file that came into force. Records are never removed or replaced. Pages stay stable while new records arrive. With `format=csv` it is a file of any length; the change is JSON.',
    query: auditQuery,
    answers: {
      description: 'A page of audit records.',
      schema: auditRecordListSchema,
      example: exampleList(exampleRecord),
      csv: exampleCsv,
    },
    async handle({ ctx, query: { limit, format, ...query } }, { store, log }) {
      if (format === 'csv') {
        const pieces = whileConnected(ctx, linesOf(store, query));
        const file = { name: 'audit.csv', header: csvLineOf(columns), pieces, what: 'a file of the audit trail' };
        await answerCsvFile(ctx, file, { log });
        return undefined;
      }
      const found = await store.audit.listAudit({ ...query, limit: limit + 1 });
      const accounts = found.flatMap(({ actor, account }) => [actor ?? [], account ?? []].flat());
      const names = await store.accounts.findNames([...new Set(accounts)]);
      return presentList({ found, limit, present: (record) => present(record, names) });
    },
  }),
];

const linesAtOnce = 500;

async function* linesOf(store: Pick<Store, 'audit'>, query: Omit<AuditPage, 'limit'>): AsyncGenerator<string[]> {
  for (let after = query.after; ; ) {
    const found = await store.audit.listAudit({ ...query, after, limit: linesAtOnce });
    yield found.map(lineOf);
    after = found.at(-1)?.id;
    if (found.length < linesAtOnce) return;
  }
}

/** A file has no names: it is kept, and names change. */
function lineOf({ at, change, ...record }: StoredRecord): string {
  const cells = { ...record, at: at.toISOString(), change: JSON.stringify(change) };
  return csvLineOf(columns.map((column) => textCell(cells[column] ?? '')));
}

/** Records have no names: these are the present ones. */
function present({ id, at, ...record }: StoredRecord, names: ReadonlyMap<string, string>): AuditRecord {
  const [actorName, accountName] = [names.get(record.actor ?? ''), names.get(record.account ?? '')];
  return {
    id,
    at: at.toISOString(),
    ...record,
    ...(actorName !== undefined && { actor_name: actorName }),
    ...(accountName !== undefined && { account_name: accountName }),
  };
}
