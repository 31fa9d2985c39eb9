import type { Caller } from '../../shared/caller.ts';
import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import type {
  Admission,
  Admit,
  Admitted,
  Charge,
  CountersAnswer,
  Limit,
  LimitCounters,
  Look,
} from '../../shared/limits/admit.ts';
import type { AskLimits } from '../../shared/limits/ask-limits.ts';
import type { Release } from '../../shared/limits/release.ts';
import type { Credential } from './authorization.ts';
import type { KeyUse } from './key-use.ts';

/** `caller` is what was found at first, undefined for an account that is not known here. */
export type CheckRequest = { requestId: string; credential: Credential; caller: Caller | undefined };

/** What a request needs of the limits, or why this caller may not make it; both depend on the caller's plan. */
export type Ask = (caller: Caller) => { charge: Charge } | { refusal: ApiError };

/** `refused`: by something other than a limit; `limited`: by one, and for how long. */
export type Checked = { caller: Caller; counters: LimitCounters } & (
  | { outcome: 'admitted'; admission: Admission; inFlight: number; charge: Charge }
  | { outcome: 'refused'; error: ApiError }
  | { outcome: 'limited'; limit: Limit; waitMs: number }
);

/**
 * Makes sure that the caller is the present one: one call to Redis where it is, one reading of the store more where it is
 * not, or where its month is not counted yet. Fails with `INVALID_KEY` for a key that has ended, and `SERVICE_UNAVAILABLE`
 * where it cannot be known; `look` with `FORBIDDEN` for an account that is suspended, too.
 */
export interface CheckCaller {
  admit(request: CheckRequest, ask: Ask): Promise<Checked>;
  /** Only looks; `now` is Redis's time, in milliseconds. */
  look(request: CheckRequest): Promise<{ caller: Caller; now: number }>;
  /** Looks at the account's counters as well, also where it is suspended. */
  readCounters(request: CheckRequest): Promise<{ caller: Caller; counters: LimitCounters }>;
}
export function createCheckCaller({
  admit,
  release,
  askLimits,
  keyUse,
}: {
  admit: Admit;
  release: Release;
  /** Reads a caller by its credential. */
  askLimits: AskLimits<Credential>;
  keyUse: Pick<KeyUse, 'note'>;
}): CheckCaller {
  /** An admission whose answer is lost may have been carried out, or will be: nobody would end its lease. */
  async function admitOrRelease(look: Look, charge: Charge): Promise<Admitted> {
    try {
      return await admit.admit(look, charge);
    } catch (error) {
      release(look).catch(() => {});
      throw error;
    }
  }

  function asking({ requestId, credential, caller }: CheckRequest) {
    const account = 'account' in credential ? credential.account : undefined;
    return { account, subject: credential, requestId, caller };
  }

  return {
    /** A refusal counts only if it is of the current caller, so a request with one only reads the counters. */
    async admit(request, ask) {
      const asked: { last?: ReturnType<Ask> } = {};
      const { caller, answer } = await askLimits<Admitted | CountersAnswer>(asking(request), (look, found) => {
        if (found === undefined) return admit.readCounters(look);
        const asks = found.suspended ? { refusal: accountSuspended() } : ask(found);
        asked.last = asks;
        return 'charge' in asks ? admitOrRelease(look, asks.charge) : admit.readCounters(look);
      });
      if (answer.outcome === 'ended')
        throw temporarilyUnavailable(new Error('a request was ended before its admission'));
      const { counters } = answer;
      if (answer.outcome === 'full') return { outcome: 'refused', caller, counters, error: outboxFull() };
      if (answer.outcome === 'refused') return { ...answer, outcome: 'limited', caller };
      const { last } = asked;
      if (last !== undefined && 'refusal' in last) return { outcome: 'refused', caller, counters, error: last.refusal };
      if (last === undefined || answer.outcome !== 'admitted') {
        throw new Error('a caller was neither admitted nor refused');
      }
      keyUse.note(caller);
      return { ...answer, caller, charge: last.charge };
    },
    async look(request) {
      const { caller, answer } = await askLimits(asking(request), admit.look);
      requireActive(caller);
      keyUse.note(caller);
      return { caller, now: answer.now };
    },
    async readCounters(request) {
      const { caller, answer } = await askLimits(asking(request), admit.readCounters);
      if (!caller.suspended) keyUse.note(caller);
      return { caller, counters: answer.counters };
    },
  };
}

function outboxFull(): ApiError {
  return temporarilyUnavailable(new Error('too much usage waits for the store (OUTBOX_LENGTH_MAX)'));
}

/** Throws `FORBIDDEN` for an account that is suspended. */
export function requireActive(caller: Caller): void {
  if (caller.suspended) throw accountSuspended();
}

export function accountSuspended(): ApiError {
  return new ApiError('FORBIDDEN', 'This account is suspended.');
}
