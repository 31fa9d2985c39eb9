import { changed, newAccount } from '../../../../shared/account-changes/change-settings.ts';
import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import type { Account, Change, Origin } from '../../../../shared/store/accounts/account.ts';
import type { Decision } from '../../../../shared/store/documents/documents.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { type AppContext, stateOf, timeOf } from '../../../request-state.ts';

/** What an operator does to an account beside its settings. */
export type Action = Pick<Change, 'batchCancelled'> | Pick<Change, 'requestEnded'>;

export type ActionOrigin = { by: string; at: Date; origin: Origin };

/** The operator of this request. */
export function byOperator(ctx: AppContext, reason: string | undefined): ActionOrigin {
  const origin = { address: stateOf(ctx, 'address'), reason: reason ?? null };
  return { by: stateOf(ctx, 'caller').account, at: timeOf(ctx), origin };
}

/**
 * Records an action, unless it is recorded already. It is recorded before it is done: so what an operator has done is in the audit trail,
 * even if the ingress dies in between, and a repeat does it without a second record.
 */
export type RecordAction = (
  ctx: AppContext,
  account: string,
  done: { action: Action; by: ActionOrigin },
) => Promise<void>;

export function createRecordAction({
  store,
  changeRecorded,
}: {
  store: Pick<Store, 'audit'>;
  changeRecorded: RecordedChange;
}): RecordAction {
  return async function recordAction(ctx, account, done) {
    // The account has its last 200 changes only.
    const records = await store.audit.listAudit({ account, limit: recordsMax });
    if (records.some(({ change }) => isSame(change, done.action))) return;
    const unknown = { id: account, plan: stateOf(ctx, 'planFile').defaultPlan };
    await changeRecorded(account, decideAction({ ...done, unknown }), { requestId: stateOf(ctx, 'requestId') });
  };
}

const recordsMax = 200;

/**
 * Makes an action a change of the account, unless one of its last 200 changes is the same action. `unknown` is the account to create if
 * there is none: one that has used only sign-in tokens.
 */
export function decideAction({
  action,
  by,
  unknown,
}: {
  action: Action;
  by: ActionOrigin;
  unknown: { id: string; plan: string };
}) {
  return (known: Account | undefined): Decision<Account, Account | undefined> => {
    if (known?.changes.some((change) => isSame(change, action))) return { result: known };
    const next = changed(known ?? newAccount(unknown.id, unknown.plan, by.at), { ...by, ...action });
    return { result: next, next };
  };
}

function isSame(change: Partial<Change>, action: Action): boolean {
  if ('batchCancelled' in action) return change.batchCancelled === action.batchCancelled;
  return 'requestEnded' in action && change.requestEnded === action.requestEnded;
}
