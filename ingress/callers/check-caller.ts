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
import type { Callers } from './callers.ts';
import type { KeyUse } from './key-use.ts';

/** `caller` is what was found at first, undefined for an account that is not known here. */
type Request = { requestId: string; credential: Credential; caller: Caller | undefined };

/** What a request asks of the limits, which depends on its caller's plan; `refuse`: why this caller gets nothing. */
export type Ask = { refuse: (caller: Caller) => ApiError | undefined; charge: (caller: Caller) => Charge };

/** `refused`: by something other than a limit; `limited`: by one, and for how long. */
export type Checked = { caller: Caller; counters: LimitCounters } & (
  | { outcome: 'admitted'; admission: Admission; inFlight: number }
  | { outcome: 'refused'; error: ApiError }
  | { outcome: 'limited'; limit: Limit; waitMs: number }
);

/**
 * Makes sure that the caller is the present one: one call to Redis where it is, one reading of the store more where it is
 * not, or where its month is not counted yet. Fails with `INVALID_KEY` for a key that has ended, and `SERVICE_UNAVAILABLE`
 * where it cannot be known; `look` with `FORBIDDEN` for an account that is suspended, too.
 */
export interface CheckCaller {
  admit(request: Request, ask: Ask): Promise<Checked>;
  /** Only looks; `now` is Redis's time, in milliseconds. */
  look(request: Request): Promise<{ caller: Caller; now: number }>;
  /** Looks at the account's counters as well, also where it is suspended. */
  readCounters(request: Request): Promise<{ caller: Caller; counters: LimitCounters }>;
}
export function createCheckCaller({
  admit,
  release,
  askLimits,
  callers,
  keyUse,
}: {
  admit: Admit;
  release: Release;
  askLimits: AskLimits;
  callers: Pick<Callers, 'reread'>;
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

  function asking({ requestId, credential, caller }: Request) {
    const account = 'account' in credential ? credential.account : undefined;
    return { account, requestId, caller, reread: () => callers.reread(credential) };
  }

  return {
    /**
     * What speaks against a caller that was overtaken may hold no longer: such a request is looked at and not let in, and its
     * refusal stands only once its caller does.
     */
    async admit(request, { refuse, charge }) {
      const refusalOf = (caller: Caller) => refuseSuspended(caller) ?? refuse(caller);
      const { caller, answer } = await askLimits<Admitted | CountersAnswer>(asking(request), (look, found) =>
        found === undefined || refusalOf(found) !== undefined
          ? admit.readCounters(look)
          : admitOrRelease(look, charge(found)),
      );
      if (answer.outcome === 'ended')
        throw temporarilyUnavailable(new Error('a request was ended before its admission'));
      const { counters } = answer;
      if (answer.outcome === 'full') return { outcome: 'refused', caller, counters, error: outboxFull() };
      if (answer.outcome === 'admitted') {
        keyUse.note(caller);
        return { ...answer, caller };
      }
      if (answer.outcome === 'refused') return { ...answer, outcome: 'limited', caller };
      const error = refusalOf(caller);
      if (error === undefined) throw new Error('a caller was neither admitted nor refused');
      return { outcome: 'refused', caller, counters, error };
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
  const refusal = refuseSuspended(caller);
  if (refusal !== undefined) throw refusal;
}

function refuseSuspended({ suspended }: Caller): ApiError | undefined {
  return suspended ? accountSuspended() : undefined;
}

export function accountSuspended(): ApiError {
  return new ApiError('FORBIDDEN', 'This account is suspended.');
}
