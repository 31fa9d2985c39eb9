import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import { useAgain } from '../../../shared/account-changes/remove-account.ts';
import type { Log } from '../../../shared/process/log.ts';
import { type Stage, stateOf, timeOf } from '../../request-state.ts';

/**
 * Ensures that an account that has just got a file, a batch or a webhook is not one that counts as removed
 * (contract.md#si4-removal-of-an-account): with a sign-in token, none of these changes the account. The account is read once that is
 * stored. So if a removal ends at the same time, either this sees the end, or the removal sees what was stored, in its next pass if this
 * one looked before.
 */
export function useAccountAgain({
  changeAccount,
  log,
}: {
  changeAccount: ChangeAccount;
  log: Pick<Log, 'warn'>;
}): Stage {
  return async function useAccountAgain(ctx, next) {
    await next();
    const { account, version } = stateOf(ctx, 'caller');
    await changeAccount(account, useAgain(timeOf(ctx)), version).catch((error: unknown) => {
      log.warn({ err: error, account }, 'an account may be in use and count as removed, until it is used again');
    });
  };
}
