import type { Account } from './account.ts';

/**
 * What becomes of an account: `next` is written if the account is still as it was given, else the decision is made anew on
 * what it has become. Without `next` nothing changes. Pure, so it can be asked as often as it takes.
 */
export type Decision<Result> = { result: Result; next?: Account };
export type Decide<Result> = (account: Account | undefined) => Decision<Result>;
