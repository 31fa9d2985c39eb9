import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import { temporarilyUnavailable } from '../../../shared/errors.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { Decide } from '../../../shared/store/accounts/decide.ts';
import type { Store } from '../../../shared/store/store.ts';
import { createMarkChange, markLifeMs } from './mark-change.ts';
import { createUnmarkChange } from './unmark-change.ts';

/** A process that was stopped for a while, by whatever, must not change what nobody is told of any more. */
const decideWithinMs = markLifeMs / 2;

/**
 * Changes an account so that every request, on every ingress, that starts after the answer feels it. A change that could
 * not be finished is `SERVICE_UNAVAILABLE`; it may have been made, and can be asked for again. `checkedVersion` is that of a
 * caller who is this account and was just checked, left out where somebody else makes the change.
 */
export type ChangeAccount = <Result>(
  account: string,
  decide: Decide<Result>,
  checkedVersion?: number,
) => Promise<Result>;

/**
 * Three steps: mark, change, unmark. A caller in a cache is used only while Redis has its version and no mark stands, so a
 * dead key could live on only by a version that was overtaken. Whatever ends this process between two steps, there is none:
 *
 * - before the mark: nothing has been changed.
 * - marked, not changed: the version is gone. A caller is read from the store by each request until the mark ends, and
 *   finds what was before, which is the truth. Live keys go on living.
 * - changed, not unmarked: each of those readings finds the change. No token is set while the mark stands, so whoever fills
 *   the version after it began to read after it, and has read the change.
 * - a reading that began before the mark, and would fill what it read then: the mark has deleted its token.
 * - a second change, while this one's mark stands: has an id and an end of its own. Its unmark leaves this mark standing.
 * - a write that reaches the store, or comes to stand there, after its mark has ended (it was answered 503): it was decided on
 *   a version, and is refused once any other change was made. If none was, it is felt when callers are read again, within a
 *   minute, and at once when somebody asks for it again.
 */
export function createChangeAccount({
  redis,
  store,
  log,
  now = () => performance.now(),
}: {
  redis: Redis;
  store: Pick<Store, 'findAccount' | 'changeAccount'>;
  log: Log;
  now?: () => number;
}): ChangeAccount {
  const markChange = createMarkChange(redis);
  const unmarkChange = createUnmarkChange(redis);

  return async function changeAccount(account, decide, checkedVersion) {
    // A repeat that changes nothing, or a key that is not the account's, costs nobody a mark.
    const known = await store.findAccount(account);
    const { result, next } = decide(known);
    if (next === undefined) {
      // Perhaps it repeats a change whose answer was 503 and that came to stand when its mark had ended.
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
    // Where this fails, what is in the store is unknown, and the mark stays to its end.
    const changed = await store.changeAccount(account, decideInTime);
    await unmarkChange(account, change).catch((error: unknown) => {
      // The change is made and felt. A mark that stays costs this account's requests a reading each until it ends.
      log.warn({ err: error }, 'the mark of a change could not be taken away; it ends by itself');
    });
    return changed;
  };
}
