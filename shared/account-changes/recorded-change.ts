import type { Log } from '../process/log.ts';
import type { Account } from '../store/accounts/account.ts';
import type { AuditRecord } from '../store/accounts/audit-records.ts';
import { newestRecord } from '../store/accounts/audit-records.ts';
import type { Decide } from '../store/documents/documents.ts';
import type { Store } from '../store/store.ts';
import type { ChangeAccount } from './change-account.ts';

type DecideChange = Decide<Account, Account | undefined>;

/**
 * Changes the settings of an account as `decide` returns, with one log line and one audit record (contract.md#e8-operators). A decision
 * without a change leaves neither. Returns the account. `requestId` is for the log. Fails like `ChangeAccount`, whose `checkedVersion` it
 * takes.
 */
export type RecordedChange = (
  account: string,
  decide: DecideChange,
  request: { requestId?: string; checkedVersion?: number },
) => Promise<Account | undefined>;

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

  return async function changeRecorded(account, decide, { requestId, checkedVersion }) {
    const { changed, record } = await changeAccount(account, withRecord(decide), checkedVersion);
    if (record !== undefined) {
      log.info({ ...(requestId !== undefined && { requestId }), audit: record }, 'an account was changed');
      await copyRecord(account);
    }
    return changed;
  };
}

type ChangeResult = { changed: Account | undefined; record?: AuditRecord | undefined };

function withRecord(decide: DecideChange): Decide<Account, ChangeResult> {
  return (known) => {
    const { result: changed, next } = decide(known);
    return next === undefined ? { result: { changed } } : { result: { changed, record: newestRecord(next) }, next };
  };
}
