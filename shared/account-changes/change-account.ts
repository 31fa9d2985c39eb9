import { ulid } from 'ulid';
import { temporarilyUnavailable } from '../errors.ts';
import type { Log } from '../process/log.ts';
import type { Redis } from '../redis/connections.ts';
import type { Account } from '../store/accounts/account.ts';
import type { AccountStore } from '../store/accounts/account-store.ts';
import type { Decide } from '../store/documents/documents.ts';
import { createMarkChange, createUnmarkChange, markLifeMs } from './change-marks.ts';

/** A process that was suspended for a while must not change an account after its mark has expired. */
const decideWithinMs = markLifeMs / 2;

/**
 * Changes an account so that it applies to every request, on every ingress, that starts after the result (contract.md#c8-revocation). A
 * change that could not be completed is `SERVICE_UNAVAILABLE`; it may have been made, and can be retried. `checkedVersion` is the version
 * of the caller if it is this account and was just checked; omitted if another caller makes the change.
 */
export type ChangeAccount = <Result>(
  account: string,
  decide: Decide<Account, Result>,
  checkedVersion?: number,
) => Promise<Result>;

/**
 * Three steps: mark, change, unmark (contract.md#c17-marks-of-changes, decisions.md#revocation-by-marks). A cached caller is used only
 * while Redis has its version and no mark exists. So a revoked key could stay valid only by a stale version. There is none, even if this
 * process dies between two steps:
 *
 * - before the mark: nothing has been changed.
 * - marked, not changed: the version is deleted. Each request reads its caller from the store until the mark expires, and finds the
 *   unchanged account, which is correct. Active keys stay valid.
 * - changed, not unmarked: each of these reads finds the change. No fill token is set while the mark exists, so a request that fills the
 *   version after the mark began its read after the mark, and has read the change.
 * - a read that began before the mark, and would fill the old version: the mark has deleted its fill token.
 * - a second change while this mark exists: has a separate id and expiry. Its unmark keeps this mark.
 * - a write that reaches the store, or becomes durable there, after its mark has expired (it was answered with 503): it was decided on a
 *   version, and is refused if any other change was made. If none was, it applies when callers are read again, within a minute, and
 *   immediately when the change is retried.
 */
export function createChangeAccount({
  redis,
  store,
  log,
  now = () => performance.now(),
}: {
  redis: Redis;
  store: Pick<AccountStore, 'findAccount' | 'changeAccount'>;
  log: Log;
  now?: () => number;
}): ChangeAccount {
  const markChange = createMarkChange(redis);
  const unmarkChange = createUnmarkChange(redis);

  return async function changeAccount(account, decide, checkedVersion) {
    // A repeated change without effect, or a key of another account, sets no mark.
    const known = await store.findAccount(account);
    const { result, next } = decide(known);
    if (next === undefined) {
      // It may repeat a change that was answered with 503 and became durable after its mark had expired.
      if (known !== undefined && known.version !== checkedVersion) await unmarkChange(account, 'no change');
      return result;
    }

    const change = ulid();
    const markedAt = now();
    await markChange(account, change);
    const decideInTime: typeof decide = (known) => {
      if (now() - markedAt > decideWithinMs) throw temporarilyUnavailable(new Error('the mark of a change is too old'));
      return decide(known);
    };
    // If this fails, the state of the store is unknown, and the mark stays until it expires.
    const changed = await store.changeAccount(account, decideInTime);
    await unmarkChange(account, change).catch((error: unknown) => {
      // The change is made and applies. Until the mark expires, each request of this account costs a read of the store.
      log.warn({ err: error }, 'the mark of a change could not be removed; it will expire');
    });
    return changed;
  };
}
