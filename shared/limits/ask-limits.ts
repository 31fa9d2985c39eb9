import { createSingleFlight } from '../concurrency/single-flight.ts';
import { temporarilyUnavailable } from '../errors.ts';
import type { Lane } from '../redis/keys.ts';
import type { Caller } from '../store/records/account.ts';
import { validUntil } from '../store/records/key.ts';
import type { AdmitAnswer, CountersAnswer, LookAnswer } from './admission.ts';
import type { Look, LookKey } from './admit.ts';
import type { Holder, Seed } from './seed.ts';

/** `caller`: as cached in this process, undefined if it is not. `subject`: the value by which the caller is read from the store. */
type Request<Subject> = {
  account: string | undefined;
  requestId: string;
  lane?: Lane;
  caller: Caller | undefined;
  subject: Subject;
};

type Answer = AdmitAnswer | CountersAnswer | LookAnswer;
type FinalAnswer<Each> = { caller: Caller; answer: Exclude<Each, { outcome: 'stale' | 'cold' }> };

/**
 * Calls `ask` until the caller is current and its month is counted: once if both already hold. Fails with `SERVICE_UNAVAILABLE` if that
 * cannot be determined (decisions.md#admission-fails-closed). Errors of `ask` and `reread` are passed on.
 */
export type AskLimits<Subject> = <Each extends Answer>(
  request: Request<Subject>,
  ask: (look: Look, caller: Caller | undefined) => Promise<Each>,
) => Promise<FinalAnswer<Each>>;

/**
 * After an outage of Redis no month is counted, and each seeding reads the outbox. If more than this many run at once, clients get an error
 * and retry after a second.
 */
const seedingsMax = 64;
/** A stale caller, an uncounted month of its account and of its key, and a change in between take eight calls. */
const callsMax = 10;

export function createAskLimits<Subject>(deps: {
  seed: Seed;
  /** Reads a caller from the store. */
  reread: (subject: Subject) => Promise<Caller>;
}): AskLimits<Subject> {
  const { seed, reread } = deps;
  let seedings = 0;
  const seeding = createSingleFlight({
    nameOf: ({ account, keyId = '', month }: Holder & { month: string }) => `${month} ${keyId} ${account}`,
    fetch: seedOneOfFew,
  });

  async function seedOneOfFew({ month, ...holder }: Holder & { month: string }): Promise<unknown> {
    if (seedings >= seedingsMax) throw temporarilyUnavailable(new Error('too many months are being counted at once'));
    seedings++;
    try {
      return await seed(holder, month);
    } finally {
      seedings--;
    }
  }

  /** The store may be unavailable: then the old count is used. */
  function countAgainLater(account: string, answer: Answer): void {
    if (!('counters' in answer)) return;
    const { month, key } = answer.counters;
    if (key?.isCountOld) seeding.join({ account, keyId: key.id, month }).catch(() => {});
  }

  return async function askLimits<Each extends Answer>(
    { requestId, lane, subject, ...request }: Request<Subject>,
    ask: (look: Look, caller: Caller | undefined) => Promise<Each>,
  ): Promise<FinalAnswer<Each>> {
    let { caller } = request;
    let reading: Look['reading'];
    for (let calls = 1; calls <= callsMax; calls++) {
      const account = request.account ?? caller?.account ?? '';
      const key = caller && lookKeyOf(caller);
      const answer = await ask({ account, requestId, version: caller?.version, reading, lane, key }, caller);
      reading = undefined;
      if (answer.outcome === 'stale') {
        caller = await reread(subject);
        reading = answer.reading;
      } else if (answer.outcome === 'cold') {
        await seeding.join({ account, keyId: answer.keyId, month: answer.month });
      } else if (caller === undefined) {
        throw new Error('an unknown caller was accepted');
      } else {
        countAgainLater(account, answer);
        return { caller, answer: answer as FinalAnswer<Each>['answer'] }; // the branches above excluded both
      }
    }
    throw temporarilyUnavailable(new Error('an account changed faster than its caller could be read'));
  };
}

/** Undefined for the default key, and for a further key that has neither an end nor limits: admitting it costs nothing more. */
function lookKeyOf({ keyId, keyScope }: Caller): LookKey | undefined {
  if (keyId === undefined || keyScope === undefined) return undefined;
  const endsAt = validUntil(keyScope);
  const { limits } = keyScope;
  return endsAt === undefined && limits === undefined ? undefined : { id: keyId, endsAt, limits };
}
