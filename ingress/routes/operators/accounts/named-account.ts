import { ApiError } from '../../../../shared/errors.ts';
import { type Account, isGone } from '../../../../shared/store/accounts/account.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { type AppContext, pathParameter } from '../../../request-state.ts';
import type { RequestLookUp } from '../../../requests/request-look-up.ts';

/** The account that the path names. */
export function accountOf(ctx: AppContext): string {
  return pathParameter(ctx, 'account');
}

/** An account that is gone (`isGone`) is like one that was never used. */
export async function findPresent(store: Pick<Store, 'accounts'>, id: string): Promise<Account | undefined> {
  const account = await store.accounts.findAccount(id);
  return account === undefined || isGone(account) ? undefined : account;
}

/** The display name of an account as a field of a response. Without a name there is no such field. */
export function named(names: ReadonlyMap<string, string>, account: string): { name?: string } {
  const name = names.get(account);
  return name === undefined ? {} : { name };
}

export function noSuchAccount(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such account.');
}

export type KnownAccountDeps = {
  requestLookUp: Pick<RequestLookUp, 'list'>;
  store: Pick<Store, 'accounts' | 'batches'>;
};

/**
 * `NOT_FOUND` for an account that has neither a document, nor a request, nor a batch. One that has used only sign-in tokens has no
 * document.
 */
export async function requireKnown(account: string, { requestLookUp, store }: KnownAccountDeps): Promise<void> {
  if ((await store.accounts.findAccount(account)) !== undefined) return;
  if ((await requestLookUp.list(account, { limit: 1, filter: {} })).last !== undefined) return;
  if ((await store.batches.listBatches(account, { limit: 1, order: 'desc' })).length === 0) throw noSuchAccount();
}
