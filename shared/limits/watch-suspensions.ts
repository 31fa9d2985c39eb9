import { repeatWhile } from '../concurrency/repeat-while.ts';
import type { Log } from '../process/log.ts';
import { type Redis, readStrings } from '../redis/connections.ts';
import { versionKey } from '../redis/keys.ts';
import type { Caller } from '../store/records/account.ts';
import { noVersion } from './admit.ts';

/** Notifies running requests of an account when the account is suspended (contract.md#l7-suspension). */
export interface SuspensionWatch extends Disposable {
  /**
   * Calls `onSuspended` once, about a second after the account of this caller was suspended. The returned function unsubscribes. `version`
   * is the account's version at admission, omitted if it is not known.
   */
  follow(caller: Pick<Caller, 'account'> & { version?: number }, onSuspended: () => void): () => void;
}

type AccountWatch = { version: number; listeners: Set<() => void> };

/** After Redis has lost its data, all versions are missing. Accounts beyond this number are checked in the next second. */
const looksMax = 100;

/**
 * Reads the versions of all accounts with running requests, with one command per second; no command while nothing runs
 * (contract.md#v4-suspended-while-running, decisions.md#suspensions-watched-once-a-second).
 */
export function watchSuspensions({
  redis,
  look,
  log,
  everyMs = 1_000,
}: {
  redis: Redis;
  /** Reads the account as it is now, from the store unless Redis has its version. */
  look: (account: string) => Promise<Caller>;
  log: Log;
  everyMs?: number;
}): SuspensionWatch {
  const followed = new Map<string, AccountWatch>();

  async function lookAtAll(): Promise<void> {
    const accounts = [...followed.keys()];
    const versions = await readStrings(redis, accounts.map(versionKey));
    const changed = accounts.filter((account, index) => {
      const known = followed.get(account); // its requests may have ended during the read
      const version = versions[index];
      return known !== undefined && version !== undefined && version !== String(known.version);
    });
    await Promise.all(changed.slice(0, looksMax).map(lookAt));
  }

  async function lookAt(account: string): Promise<void> {
    moveToEnd(account);
    const { suspended, version } = await look(account);
    const known = followed.get(account);
    if (known === undefined) return;
    if (suspended) {
      followed.delete(account);
      for (const onSuspended of known.listeners) onSuspended();
    } else known.version = version;
  }

  /** The accounts that have waited longest are checked next: those whose checks fail must not keep others from being checked. */
  function moveToEnd(account: string): void {
    const known = followed.get(account);
    if (known === undefined) return;
    followed.delete(account);
    followed.set(account, known);
  }

  const looking = repeatWhile({
    everyMs,
    work: lookAtAll,
    isNeeded: () => followed.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'cannot determine which accounts are suspended'),
  });

  return {
    follow({ account, version = noVersion }, onSuspended) {
      const known = followed.get(account) ?? { version, listeners: new Set() };
      known.version = Math.max(known.version, version);
      followed.set(account, known);
      looking.begin();
      known.listeners.add(onSuspended);
      return () => {
        known.listeners.delete(onSuspended);
        if (known.listeners.size === 0 && followed.get(account) === known) followed.delete(account);
      };
    },
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}
