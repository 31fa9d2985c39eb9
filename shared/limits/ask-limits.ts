import type { Caller } from '../caller.ts';
import { temporarilyUnavailable } from '../errors.ts';
import type { Lane } from '../lane.ts';
import { createSingleFlight } from '../single-flight.ts';
import type { Admitted, CountersAnswer, Look, Looked } from './admit.ts';
import type { Seed } from './seed.ts';

/** `caller` is what was found at first, undefined where it is not known here; `reread` reads it from the store. */
type Request = {
  account: string | undefined;
  requestId: string;
  lane?: Lane;
  caller: Caller | undefined;
  reread: () => Promise<Caller>;
};

type Answer = Admitted | CountersAnswer | Looked;
type Settled<Given> = { caller: Caller; answer: Exclude<Given, { outcome: 'stale' | 'cold' }> };

/**
 * Asks the limits until the caller is the present one and its month is counted: one call where both are so. Fails with
 * `SERVICE_UNAVAILABLE` where that cannot be known, and as `ask` and `reread` do.
 */
export type AskLimits = <Given extends Answer>(
  request: Request,
  ask: (look: Look, caller: Caller | undefined) => Promise<Given>,
) => Promise<Settled<Given>>;

/** After an outage of Redis every account is cold, and each seeding reads the outbox: the others come back in a second. */
const seedingsMax = 64;
/** A caller that is overtaken, a month that is cold and a change that comes in between are six calls. */
const callsMax = 8;

export function createAskLimits({ seed }: { seed: Seed }): AskLimits {
  let seedings = 0;
  const seeding = createSingleFlight({
    nameOf: ({ account, month }: { account: string; month: string }) => `${month} ${account}`,
    fetch: ({ account, month }) => seedOneOfFew(account, month),
  });

  async function seedOneOfFew(account: string, month: string): Promise<unknown> {
    if (seedings >= seedingsMax) throw temporarilyUnavailable(new Error('too many months are counted at once'));
    seedings++;
    try {
      return await seed(account, month);
    } finally {
      seedings--;
    }
  }

  return async function askLimits<Given extends Answer>(
    { requestId, lane, reread, ...request }: Request,
    ask: (look: Look, caller: Caller | undefined) => Promise<Given>,
  ): Promise<Settled<Given>> {
    let { caller } = request;
    let reading: Look['reading'];
    for (let calls = 1; calls <= callsMax; calls++) {
      const account = request.account ?? caller?.account ?? '';
      const answer = await ask({ account, requestId, version: caller?.version, reading, lane }, caller);
      reading = undefined;
      if (answer.outcome === 'stale') {
        caller = await reread();
        reading = answer.reading;
      } else if (answer.outcome === 'cold') {
        await seeding.join({ account, month: answer.month });
      } else if (caller === undefined) {
        throw new Error('a caller was taken that nobody knows');
      } else {
        return { caller, answer: answer as Settled<Given>['answer'] }; // the two are told apart above
      }
    }
    throw temporarilyUnavailable(new Error('an account changed faster than its caller could be read'));
  };
}
