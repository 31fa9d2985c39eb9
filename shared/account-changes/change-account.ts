import { ulid } from 'ulid';
import { temporarilyUnavailable } from '../errors.ts';
import type { Log } from '../process/log.ts';
import { type Redis, redisUnavailable } from '../redis/connections.ts';
import { versionKeysOf } from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import type { Decide } from '../store/documents.ts';
import type { Account, Origin } from '../store/records/account.ts';
import type { AccountStore } from '../store/records/account-store.ts';
import { type AuditRecord, newestRecord } from '../store/records/audit-records.ts';
import type { Store } from '../store/records/store.ts';

/**
 * How long a change or a removal of an account is marked. Half of it is for the decision (below, and in
 * workers/upkeep/remove-unused-devices.ts), the rest for the last write: the driver may take 4 s to give up a silent socket, 2 s to
 * find a server, 2 s for a connection and 4 s to retry the write (shared/store/mongo/mongo-calls.ts). A mark that is not removed
 * costs only reads of the store.
 */
export const markLifeMs = 30_000;

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

/**
 * Changes an account as `decide` returns, with one log line and one audit record (contract.md#e8-operators). A decision without a change
 * leaves neither. `requestId` is for the log, and `origin` for the record, unless the decision has one. Fails like `ChangeAccount`, whose
 * `checkedVersion` it takes.
 */
export type RecordedChange = <Result>(
  account: string,
  decide: Decide<Account, Result>,
  request: { requestId?: string; checkedVersion?: number; origin?: Origin },
) => Promise<Result>;

export function createRecordedChange({
  changeAccount,
  store,
  log,
}: {
  changeAccount: ChangeAccount;
  store: Pick<Store, 'audit'>;
  log: Pick<Log, 'info' | 'warn'>;
}): RecordedChange {
  /** The change is done, and its record is durable. If it cannot be copied now, a later change or a worker copies it. */
  async function copyRecord(account: string): Promise<void> {
    await store.audit.copyAudit(account).catch((error: unknown) => {
      log.warn({ err: error, account }, 'an audit record was not copied; it stays in its account until a retry');
    });
  }

  return async function changeRecorded(account, decide, { requestId, checkedVersion, origin }) {
    const { changed, record } = await changeAccount(account, withRecord(decide, origin), checkedVersion);
    if (record !== undefined) {
      log.info({ ...(requestId !== undefined && { requestId }), audit: record }, 'an account was changed');
      await copyRecord(account);
    }
    return changed;
  };
}

type ChangeResult<Result> = { changed: Result; record?: AuditRecord | undefined };

function withRecord<Result>(
  decide: Decide<Account, Result>,
  origin: Origin | undefined,
): Decide<Account, ChangeResult<Result>> {
  return (known) => {
    const { result: changed, next: decided } = decide(known);
    if (decided === undefined) return { result: { changed } };
    const [newest, ...earlier] = decided.changes;
    const next = newest && origin ? { ...decided, changes: [{ origin, ...newest }, ...earlier] } : decided;
    return { result: { changed, record: newestRecord(next) }, next };
  };
}

const keys = 'versionKey fillKey changesKey';
const markLua = loadLua(new URL('./mark-change.lua', import.meta.url), { keys, args: 'change lifeMs' });
const unmarkLua = loadLua(new URL('./unmark-change.lua', import.meta.url), { keys, args: 'change' });

/** From now on, no ingress uses a cached caller of this account. Fails with `SERVICE_UNAVAILABLE`. */
export function createMarkChange(redis: Redis) {
  const run = loadScript(redis, markLua);
  return async function markChange(account: string, change: string): Promise<void> {
    await redisUnavailable(run({ ...versionKeysOf(account), change, lifeMs: markLifeMs }));
  };
}

/** Called after the change: from now on, callers may be cached again. Fails with `SERVICE_UNAVAILABLE`. */
export function createUnmarkChange(redis: Redis) {
  const run = loadScript(redis, unmarkLua);
  return async function unmarkChange(account: string, change: string): Promise<void> {
    await redisUnavailable(run({ ...versionKeysOf(account), change }));
  };
}
