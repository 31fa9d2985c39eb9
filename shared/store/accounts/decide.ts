import type { Account } from './account.ts';

/**
 * A decision on a change of an account. `next` is written if the account has not changed in the meantime. Otherwise the decision is made
 * again on the current account. Without `next` nothing changes. The function is pure, so it can be called as often as needed.
 */
export type Decision<Result> = { result: Result; next?: Account };
export type Decide<Result> = (account: Account | undefined) => Decision<Result>;
