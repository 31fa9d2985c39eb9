import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import { ApiError } from '../../../../shared/errors.ts';
import type { Account } from '../../../../shared/store/accounts/account.ts';
import { parseQuery } from '../../../api/list-query.ts';
import { revokeKey } from '../../../callers/change-keys.ts';
import { findKey } from '../../../callers/key-list.ts';
import { pathParameter, type Stage, stateOf } from '../../../request-state.ts';
import { presentAccount } from '../accounts/accounts.ts';
import { accountOf, noSuchAccount } from '../accounts/named-account.ts';
import { reasonOnly } from '../accounts/reason.ts';
import { byOperator } from './record-action.ts';

/**
 * `DELETE /admin/accounts/{account}/keys/{key}`: the key stops working everywhere. A key that has ended stays as it is, and leaves no
 * record. `CONFLICT` for a device: it gets its key again with its next call.
 */
export function revokeAccountKey({ changeRecorded }: { changeRecorded: RecordedChange }): Stage {
  return async function revokeAccountKey(ctx) {
    const { reason } = parseQuery(reasonOnly, ctx.querystring);
    const id = `key_${pathParameter(ctx, 'key')}`; // the prefix is part of the route
    const by = byOperator(ctx, reason);
    const decide = (known: Account | undefined) => {
      if (known === undefined) throw noSuchAccount();
      if (findKey(known, id) === undefined) throw new ApiError('NOT_FOUND', 'The account has no such key.');
      if (known.guest !== undefined) throw deviceKey();
      return revokeKey({ named: { id }, ...by })(known);
    };
    const changed = await changeRecorded(accountOf(ctx), decide, { requestId: stateOf(ctx, 'requestId') });
    ctx.body = presentAccount(changed, by.at);
  };
}

function deviceKey(): ApiError {
  return new ApiError('CONFLICT', 'A device would get its key again. Suspend the device.');
}
