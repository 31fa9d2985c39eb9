import { z } from 'zod';
import { newAccount } from '../../../../shared/account-changes/change-settings.ts';
import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import { beginRemoval, type ClearAccount } from '../../../../shared/account-changes/remove-account.ts';
import { guestPlan } from '../../../../shared/plan-file/plan-file-schema.ts';
import type { Account } from '../../../../shared/store/accounts/account.ts';
import { readAccountBytes } from '../../../../shared/store/batches/batch-store.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { parseQuery } from '../../../api/list-query.ts';
import { type Stage, stateOf } from '../../../request-state.ts';
import { accountOf, type KnownAccountDeps, requireKnown } from '../accounts/named-account.ts';
import { reasonOnly } from '../accounts/reason.ts';
import { byOperator } from './record-action.ts';

export const removedAccount = z.strictObject({
  object: z.literal('account'),
  account: z.string(),
  deleted: z.boolean().meta({
    description:
      'false: batches are being cancelled, or there is much to remove. Workers remove the rest within minutes.',
  }),
});

export type RemovedAccount = z.infer<typeof removedAccount>;

type Deps = KnownAccountDeps & {
  store: Pick<Store, 'accounts' | 'batches' | 'webhooks'>;
  changeRecorded: RecordedChange;
  clearAccount: ClearAccount;
};

/**
 * `DELETE /admin/accounts/{account}`: removes an account or device (contract.md#si4-removal-of-an-account). Its keys stop working
 * everywhere before anything else is removed. A repeat removes what is left, and adds a record only if the account was used in the
 * meantime. For an account that is gone and has nothing, it changes nothing.
 */
export function removeAccount(deps: Deps): Stage {
  return async function removeAccount(ctx) {
    const { reason } = parseQuery(reasonOnly, ctx.querystring);
    const account = accountOf(ctx);
    const isEmpty = !(await hasItems(account, deps));
    const by = byOperator(ctx, reason);
    const plan = account.startsWith('device:') ? guestPlan : stateOf(ctx, 'planFile').defaultPlan;
    // One that has used only sign-in tokens has no document.
    const decide = (known: Account | undefined) =>
      beginRemoval({ ...by, plan, isEmpty })(known ?? newAccount(account, plan, by.at));
    await deps.changeRecorded(account, decide, { requestId: stateOf(ctx, 'requestId') });
    const deleted = await deps.clearAccount(account, by.at);
    ctx.body = { object: 'account', account, deleted } satisfies RemovedAccount;
  };
}

/** Whether it has files, batches or webhooks, also on their way. `NOT_FOUND` if there is nothing to remove, and there never was. */
async function hasItems(account: string, deps: Deps): Promise<boolean> {
  const { batches, webhooks } = deps.store;
  const found = await webhooks.findWebhooks(account);
  const { files, room } = await readAccountBytes(batches, account);
  if (found?.endpoints.length || files > 0 || Object.keys(room.entries).length > 0) return true;
  if ((await batches.listBatches(account, { limit: 1 })).length > 0) return true;
  if (found === undefined) await requireKnown(account, deps);
  return false;
}
