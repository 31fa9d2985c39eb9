import { z } from 'zod';
import { type Account, type Change, monthOf } from '../../../../shared/store/accounts/account.ts';
import type { ListedAccount } from '../../../../shared/store/accounts/account-store.ts';
import { type AuditRecord, recordsOf } from '../../../../shared/store/accounts/audit-records.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { limitParameter, parseQuery } from '../../../api/list-query.ts';
import { presentOperatorBatch } from '../../../api/present-batch.ts';
import type { AccountSummary } from '../../../api/response-schemas.ts';
import { keysOf } from '../../../callers/key-list.ts';
import { type Stage, timeOf } from '../../../request-state.ts';
import { presentShownKey } from '../../keys/present-key.ts';
import { accountOf, findPresent, named, noSuchAccount } from './named-account.ts';

export const accountsQuery = z.strictObject({
  prefix: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'The beginning of the ids: `user:al`, `device:ab12`.', examples: ['user:al'] }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'The account before the first one to return: the last of the previous page.' }),
});

/** `GET /admin/accounts`: accounts and devices, in the order of the UTF-8 bytes of their ids. */
export function listAccounts({ store }: { store: Pick<Store, 'accounts'> }): Stage {
  return async function listAccounts(ctx) {
    const { limit, ...query } = parseQuery(accountsQuery, ctx.querystring);
    const found = await store.accounts.listAccounts({ ...query, limit: limit + 1 });
    const names = await store.accounts.findNames(found.map(({ id }) => id));
    const data = found.slice(0, limit).map((account) => ({ ...summarise(account), ...named(names, account.id) }));
    ctx.body = { object: 'list', data, has_more: found.length > limit };
  };
}

function summarise({ id, plan, overageEnabled, suspended, createdAt }: ListedAccount): AccountSummary {
  return { account: id, plan, overageEnabled, suspended, createdAt: createdAt.toISOString() };
}

/**
 * `GET /admin/accounts/{account}`: an account or device as operators may see it, with its latest batches and changes. These are the last
 * 200 changes of every kind, then earlier changes of its settings. At least the last 200 changes of settings are shown.
 */
export function retrieveAccount({ store }: { store: Pick<Store, 'audit' | 'accounts' | 'batches'> }): Stage {
  return async function retrieveAccount(ctx) {
    const id = accountOf(ctx);
    // Read before the account, so that the changes of the account are at least as new.
    const records = await store.audit.listAudit({ account: id, limit: shownRecordsMax });
    const account = await findPresent(store, id);
    const shown = presentAccount(account, timeOf(ctx), records);
    const batches = await store.batches.listBatches(id, { limit: shownBatchesMax, order: 'desc' });
    const names = await store.accounts.findNames([id]);
    ctx.body = { ...shown, ...named(names, id), batches: batches.map(presentOperatorBatch) };
  };
}

const shownRecordsMax = 200;
const shownBatchesMax = 20;

/**
 * Converts an account to the format of the API. `topUp` is the tokens that were added to the allowance of the month of `now`. The changes
 * of the account are followed by those of `records` that it no longer has. `NOT_FOUND` if there is no account.
 */
export function presentAccount(account: Account | undefined, now: Date, records: readonly AuditRecord[] = []): object {
  if (account === undefined) throw noSuchAccount();
  const { id, plan, overageEnabled, suspended, createdAt } = account;
  const topUp = account.topUp?.month === monthOf(now) ? account.topUp.tokens : 0;
  const changes = [...account.changes.map(withoutOrigin), ...earlierChanges(account, records)];
  return {
    account: id,
    plan,
    overageEnabled,
    topUp,
    suspended,
    createdAt,
    keys: keysOf(account).map((key) => presentShownKey(key, now)),
    changes,
  };
}

function earlierChanges(account: Account, records: readonly AuditRecord[]): Change[] {
  const shown = new Set(recordsOf(account).map(({ id }) => id));
  return records.filter(({ id }) => !shown.has(id)).map(({ at, actor, change }) => ({ at, by: actor, ...change }));
}

function withoutOrigin({ origin: _, ...change }: Change): Change {
  return change;
}
