import { z } from 'zod';
import { newAccount } from '../../shared/account-changes/change-settings.ts';
import { beginRemoval } from '../../shared/account-changes/remove-account.ts';
import { ApiError } from '../../shared/errors.ts';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import type { Account } from '../../shared/store/records/account.ts';
import { readAccountBytes } from '../../shared/store/records/batch-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { named, type Route, route } from '../api/route.ts';
import { findKey, revokeKey } from '../authentication/change-keys.ts';
import {
  accountParameter,
  changedAccountSchema,
  exampleAccount,
  type KnownAccountParts,
  noSuchAccount,
  presentAccount,
  requireKnown,
} from './accounts.ts';
import { keyParameter } from './keys.ts';
import { byOperator, reasonOnly } from './operator-action.ts';

const removedAccountSchema = named(
  'RemovedAccount',
  z.strictObject({
    object: z.literal('account'),
    account: z.string(),
    deleted: z.boolean().meta({
      description:
        'false: batches are being cancelled, or there is much to remove. Workers remove the rest within minutes.',
    }),
  }),
);

export type RemovedAccount = z.infer<typeof removedAccountSchema>;

export const accountRemovalRoutes: readonly Route[] = [
  /**
   * Removes an account or device (contract.md#si4-removal-of-an-account). Its keys stop working
   * everywhere before anything else is removed. A repeat removes what is left, and adds a record only if the account was used in the
   * meantime. For an account that is gone and has nothing, it changes nothing.
   */
  route({
    id: 'removeAccount',
    method: 'DELETE',
    path: '/admin/accounts/:account',
    access: 'operator',
    tag: 'Operators',
    summary: 'Remove an account or device',
    description:
      'Its keys stop working everywhere, then its webhooks, batches and files are removed, with its settings and its display name. Batches that run are cancelled first. Usage records and the audit trail keep its id. Adds an audit record. A repeat removes what is left. A later sign-in or guest mint begins again, on the default plan; a suspension stays.',
    query: reasonOnly,
    answers: {
      description: 'Whether all of it is removed.',
      schema: removedAccountSchema,
      example: { object: 'account', account: 'user:alice', deleted: true },
    },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle(request, parts) {
      const { account } = request.params;
      const { changeRecorded, clearAccount } = parts.authentication;
      const isEmpty = !(await hasItems(account, parts));
      const by = byOperator(request, request.query.reason);
      const plan = account.startsWith('device:') ? guestPlan : request.planFile.defaultPlan;
      // One that has used only sign-in tokens has no document.
      const decide = (known: Account | undefined) =>
        beginRemoval({ ...by, plan, isEmpty })(known ?? newAccount(account, plan, by.at));
      await changeRecorded(account, decide, { requestId: request.requestId });
      return { object: 'account' as const, account, deleted: await clearAccount(account, by.at) };
    },
  }),
  /**
   * The key stops working everywhere. A key that has ended stays as it is, and leaves no
   * record. `CONFLICT` for a device: it gets its key again with its next call.
   */
  route({
    id: 'revokeAccountKey',
    method: 'DELETE',
    path: '/admin/accounts/:account/keys/key_:key',
    access: 'operator',
    tag: 'Operators',
    summary: 'Revoke a key of an account',
    description:
      'The key stops working everywhere. Adds an audit record. A key that has ended stays as it is, without another record. `CONFLICT`: the account is a device, which would get its key again; suspend it instead.',
    query: reasonOnly,
    answers: { description: 'The account after the change.', schema: changedAccountSchema, example: exampleAccount },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params: { account: accountParameter, key: keyParameter },
    async handle(request, { authentication: { changeRecorded } }) {
      const { account, key: id } = request.params;
      const by = byOperator(request, request.query.reason);
      const decide = (known: Account | undefined) => {
        if (known === undefined) throw noSuchAccount();
        if (findKey(known, id) === undefined) throw new ApiError('NOT_FOUND', 'The account has no such key.');
        if (known.guest !== undefined) throw deviceKey();
        return revokeKey({ named: { id }, ...by })(known);
      };
      const changed = await changeRecorded(account, decide, { requestId: request.requestId });
      return presentAccount(changed, by.at);
    },
  }),
];

type RemovalParts = KnownAccountParts & { store: Pick<Store, 'accounts' | 'batches' | 'webhooks'> };

/** Whether it has files, batches or webhooks, also on their way. `NOT_FOUND` if there is nothing to remove, and there never was. */
async function hasItems(account: string, parts: RemovalParts): Promise<boolean> {
  const { batches, webhooks } = parts.store;
  const found = await webhooks.findWebhooks(account);
  const { files, room } = await readAccountBytes(batches, account);
  if (found?.endpoints.length || files > 0 || Object.keys(room.entries).length > 0) return true;
  if ((await batches.listBatches(account, { limit: 1 })).length > 0) return true;
  if (found === undefined) await requireKnown(account, parts);
  return false;
}

function deviceKey(): ApiError {
  return new ApiError('CONFLICT', 'A device would get its key again. Suspend the device.');
}
