import { z } from 'zod';
import type { RecordedChange } from '../../shared/account-changes/change-account.ts';
import { changed, newAccount } from '../../shared/account-changes/change-settings.ts';
import type { Decision } from '../../shared/store/documents.ts';
import type { Account, Change, Origin } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { named, type RouteRequest } from '../api/route.ts';

/** What an operator does to an account beside its settings. */
type Action = Pick<Change, 'batchCancelled'> | Pick<Change, 'requestEnded'>;

export type ActionOrigin = { by: string; at: Date; origin: Origin };

/** A request of an operator, as far as its record needs it. */
type OperatorRequest = Pick<RouteRequest<'operator'>, 'caller' | 'at' | 'address' | 'requestId' | 'planFile'>;

/** The operator of this request. */
export function byOperator({ caller, at, address }: OperatorRequest, reason: string | undefined): ActionOrigin {
  return { by: caller.account, at, origin: { address, reason: reason ?? null } };
}

/**
 * Records an action, unless it is recorded already. It is recorded before it is done: so what an operator has done is in the audit trail,
 * even if the ingress dies in between, and a repeat does it without a second record.
 */
export async function recordAction(
  { planFile, requestId }: OperatorRequest,
  { store, authentication }: { store: Pick<Store, 'audit'>; authentication: { changeRecorded: RecordedChange } },
  { account, ...done }: { account: string; action: Action; by: ActionOrigin },
): Promise<void> {
  // The account has its last 200 changes only.
  const records = await store.audit.listAudit({ account, kind: ['batch', 'request'], limit: recordsMax });
  if (records.some(({ change }) => isSame(change, done.action))) return;
  const unknown = { id: account, plan: planFile.defaultPlan };
  await authentication.changeRecorded(account, decideAction({ ...done, unknown }), { requestId });
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

const reasonText = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,500}$/u;

/** Why an operator does something, for the audit trail. */
export const reason = z
  .string()
  .regex(reasonText, 'expected 1 to 500 characters, no control characters')
  .optional()
  .meta({ description: 'The reason, for the audit trail.' });

/** The body of an action, or the query of one that has no body. */
export const reasonOnly = named('Reason', z.strictObject({ reason }));
export const reasonBody = { schema: reasonOnly, example: { reason: 'It blocks a model server.' } } as const;
