import { z } from 'zod';
import { type AuditRecord, auditId } from '../../../shared/store/accounts/audit-records.ts';
import type { Store } from '../../../shared/store/store.ts';
import { limitParameter, parseQuery } from '../../api/list-query.ts';
import { presentList } from '../../api/present-list.ts';
import type { AuditRecord as ShownRecord } from '../../api/response-schemas.ts';
import type { Stage } from '../../request-state.ts';

const accountName = z.string().max(300).optional();

export const auditQuery = z.strictObject({
  account: accountName.meta({ description: 'The account or device that was changed.', examples: ['user:alice'] }),
  actor: accountName.meta({ description: 'The account that made the change.', examples: ['user:olga'] }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(auditId, 'expected the id of an audit record')
    .optional()
    .meta({ description: 'The record before the first one to return: `last_id` of the previous page.' }),
});

/** `GET /admin/audit`: the audit records, newest first. `after` can be any id, because ids sort by time. */
export function listAudit({ store }: { store: Pick<Store, 'audit' | 'accounts'> }): Stage {
  return async function listAudit(ctx) {
    const { limit, ...query } = parseQuery(auditQuery, ctx.querystring);
    const found = await store.audit.listAudit({ ...query, limit: limit + 1 });
    const names = await store.accounts.findNames([...new Set(found.flatMap(({ actor, account }) => [actor, account]))]);
    ctx.body = presentList({ found, limit, present: (record) => present(record, names) });
  };
}

/** Records have no names: these are the present ones. */
function present({ id, at, ...record }: AuditRecord, names: ReadonlyMap<string, string>): ShownRecord {
  const [actorName, accountName] = [names.get(record.actor), names.get(record.account)];
  return {
    id,
    at: at.toISOString(),
    ...record,
    ...(actorName !== undefined && { actor_name: actorName }),
    ...(accountName !== undefined && { account_name: accountName }),
  };
}
