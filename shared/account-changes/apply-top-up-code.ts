import { ApiError, temporarilyUnavailable } from '../errors.ts';
import type { Log } from '../process/log.ts';
import type { Decide, Decision } from '../store/documents.ts';
import type { Account } from '../store/records/account.ts';
import type { Store } from '../store/records/store.ts';
import { markApplied, type TopUpCode } from '../store/records/top-up-codes.ts';
import type { RecordedChange } from './change-account.ts';
import { changeSettings, topUpsMadeMax } from './change-settings.ts';

/**
 * Adds the tokens of a claimed code to the allowance of the month of `at`, once, and marks the code as applied
 * (contract.md#j5-overage-and-top-up-codes). Any process may call it, at any time and repeatedly. Returns the account. Fails with
 * `CONFLICT` if the top-ups of the month would be too many: then the code stays claimed, for the next month.
 */
export type ApplyTopUpCode = (
  code: TopUpCode,
  change: { at: Date; requestId?: string },
) => Promise<Account | undefined>;

type CodeDeps = {
  changeRecorded: RecordedChange;
  store: Pick<Store, 'audit' | 'accounts' | 'topUpCodes'>;
  defaultPlan: () => string;
  log: Pick<Log, 'warn'>;
};

const recordsAtOnce = 100;
/** How far a clock may have been set back between a claim and a record of it. */
const clockStepMsMax = 86_400_000;

/**
 * The account decides whether the tokens were added: by its list of top-ups, which has the last 500. A top-up can leave that list before
 * its code is marked, if the process died in between. So a full list without it is not trusted: the audit trail, which has every top-up, is
 * asked. And the decision is made only while the account has changed fewer than 500 times since then.
 */
export function createApplyTopUpCode({ changeRecorded, store, defaultPlan, log }: CodeDeps): ApplyTopUpCode {
  async function isInTrail(topUpId: string, account: string, claimedAt: Date): Promise<boolean> {
    const since = claimedAt.getTime() - clockStepMsMax;
    for (let after: string | undefined; ; ) {
      const records = await store.audit.listAudit({ account, after, limit: recordsAtOnce });
      if (records.some(({ change }) => change.topUp?.id === topUpId)) return true;
      const last = records.at(-1);
      if (records.length < recordsAtOnce || last === undefined || last.at.getTime() < since) return false;
      after = last.id;
    }
  }

  async function mark({ id }: TopUpCode, at: Date): Promise<void> {
    await store.topUpCodes.changeCode(id, markApplied(at)).catch((error: unknown) => {
      log.warn({ err: error, code: id }, 'a top-up code was applied and not marked; a worker marks it');
    });
  }

  return async function applyTopUpCode(code, { at, requestId }) {
    const { redeemed, tokens, id, note = null } = code;
    if (redeemed === undefined) throw new Error('a code that no account has claimed was to be applied');
    const { account, from: address } = redeemed;
    const topUp = { id: topUpIdOf(code), tokens };
    const known = await store.accounts.findAccount(account);
    const made = known?.topUpsMade ?? [];
    const isListed = made.some(({ id }) => id === topUp.id);
    const isMade = isListed || (made.length >= topUpsMadeMax && (await isInTrail(topUp.id, account, redeemed.at)));
    const change = {
      settings: { topUp },
      at,
      by: account,
      origin: { address, reason: null },
      codeRedeemed: { id, note },
    };
    const decide = changeSettings({ ...change, unknown: { id: account, plan: defaultPlan() } });
    const guarded = withinChanges(known?.version ?? 0, withoutField(decide));
    const request = requestId === undefined ? {} : { requestId };
    const changed = await changeRecorded(account, isMade ? unchanged : guarded, request);
    await mark(code, at);
    return changed;
  };
}

/** An operator's id has no space. */
export function topUpIdOf({ id }: Pick<TopUpCode, 'id'>): string {
  return `code ${id}`;
}

/** Also a change that is not made completes one that was made before, so that it applies from now on. */
function unchanged(known: Account | undefined): Decision<Account, Account | undefined> {
  return { result: known };
}

/** Decides only while no top-up that was made after `version` can have left the list of the account. */
function withinChanges<Result>(version: number, decide: Decide<Account, Result>): Decide<Account, Result> {
  return (known) => {
    if ((known?.version ?? 0) - version < topUpsMadeMax) return decide(known);
    throw temporarilyUnavailable(new Error('the account was changed too often meanwhile'));
  };
}

/** The client has sent a code and no tokens. */
function withoutField<Result>(decide: Decide<Account, Result>): Decide<Account, Result> {
  return (known) => {
    try {
      return decide(known);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'VALIDATION_ERROR') throw error;
      throw new ApiError('CONFLICT', 'This month has too many top-ups. The tokens are added next month.');
    }
  };
}
