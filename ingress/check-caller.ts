import { ApiError } from '../shared/errors.ts';
import type { Admission, Admit, Reading } from '../shared/limits/admit.ts';
import type { Credential } from './authorization.ts';
import type { Callers } from './callers.ts';
import type { KeyUse } from './key-use.ts';
import type { Caller } from './shared-callers.ts';

/** `caller` is what was found at first, undefined for an account that is not known here. */
type Request = { requestId: string; credential: Credential; caller: Caller | undefined };

/** Why this caller gets nothing, or undefined. */
type Refuse = (caller: Caller) => ApiError | undefined;

/**
 * Makes sure that the caller is the present one: one call to Redis where it is, one reading of the store more where it is
 * not. Fails with `INVALID_KEY` for a key that has ended, `FORBIDDEN` for an account that is suspended, and
 * `SERVICE_UNAVAILABLE` where neither can be known.
 */
export interface CheckCaller {
  /** Admits a request unless `refuse` has something against its caller. */
  admit(request: Request, refuse: Refuse): Promise<{ caller: Caller; admission: Admission }>;
  /** Only looks. */
  look(request: Request): Promise<Caller>;
}

type Parts = { admit: Admit; callers: Pick<Callers, 'reread'>; keyUse: Pick<KeyUse, 'note'> };

export function createCheckCaller({ admit: { admit, look }, callers, keyUse }: Parts): CheckCaller {
  /**
   * What speaks against a caller that was overtaken may hold no longer: such a request is looked at and not let in, and its
   * refusal stands only once its caller does.
   */
  async function check({ requestId, credential, ...request }: Request, refuse: Refuse, enter: Admit['admit']) {
    const ask = (caller: Caller | undefined, reading?: Reading) => {
      const account = 'account' in credential ? credential.account : (caller?.account ?? '');
      const refused = caller !== undefined && refuse(caller) !== undefined;
      return (refused ? look : enter)({ account, requestId, version: caller?.version, reading });
    };
    let { caller } = request;
    let answer = await ask(caller);
    if (answer.outcome === 'reread') {
      caller = await callers.reread(credential);
      answer = await ask(caller, answer.reading);
    }
    if (caller === undefined || answer.outcome === 'reread') throw new Error('a caller that was read was not taken');
    const refusal = refuse(caller);
    if (refusal !== undefined) throw refusal;
    keyUse.note(caller);
    return { caller, admission: answer.admission };
  }

  return {
    async admit(request, refuse) {
      const refuseAny = (caller: Caller) => refuseSuspended(caller) ?? refuse(caller);
      const { caller, admission } = await check(request, refuseAny, admit);
      if (admission === undefined) throw new Error('a caller was neither admitted nor refused');
      return { caller, admission };
    },
    look: async (request) => (await check(request, refuseSuspended, look)).caller,
  };
}

function refuseSuspended({ suspended }: Caller): ApiError | undefined {
  return suspended ? accountSuspended() : undefined;
}

export function accountSuspended(): ApiError {
  return new ApiError('FORBIDDEN', 'This account is suspended.');
}
