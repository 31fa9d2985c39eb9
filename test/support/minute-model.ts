type Amount = { requests: number; tokens: number };
type Charge = Amount & { request: string; at: number };

const bucketMs = 5_000;
const minuteMs = 60_000;
const dayMs = 86_400_000;

/**
 * The promised rolling minute, computed from a list of every charge ever made: a charge counts until 60 s after the last charge of its 5 s.
 */
export function createMinuteModel() {
  const charges: Charge[] = [];
  const bucketOf = ({ at }: Charge) => Math.floor(at / bucketMs);

  function leavesAt(charge: Charge): number {
    const together = charges.filter((other) => bucketOf(other) === bucketOf(charge));
    return Math.max(...together.map(({ at }) => at)) + minuteMs;
  }

  /** The time of a decision: never before the last charge. */
  const time = (now: number) => Math.max(now, ...charges.map(({ at }) => at));

  function counted(at: number): Amount {
    const present = charges.filter((charge) => leavesAt(charge) > at);
    return {
      requests: present.reduce((total, { requests }) => total + requests, 0),
      tokens: present.reduce((total, { tokens }) => total + tokens, 0),
    };
  }

  /** The times after `at` at which a charge expires. */
  function leaves(at: number): number[] {
    return [...new Set(charges.map(leavesAt))].filter((moment) => moment > at).sort((one, other) => one - other);
  }

  return {
    time,
    counted,
    leaves,
    charge(request: string, amount: Amount & { at: number }): void {
      charges.push({ request, ...amount });
    },
    /** Corrects the latest charge of this request. */
    correct(request: string, amount: Partial<Amount>): void {
      const charge = charges.findLast((other) => other.request === request);
      if (charge !== undefined) Object.assign(charge, amount);
    },
    /** 0 if it fits now. A minute if it never fits. */
    waitFor(asked: Amount, limit: Partial<Record<keyof Amount, number | undefined>>, now: number): number {
      const fits = (at: number) => {
        const { requests, tokens } = counted(at);
        const { requests: requestsMax, tokens: tokensMax } = { ...noLimit, ...definedOf(limit) };
        return requests + asked.requests <= requestsMax && tokens + asked.tokens <= tokensMax;
      };
      const at = time(now);
      if (fits(at)) return 0;
      const moment = leaves(at).find(fits);
      return moment === undefined ? minuteMs : moment - now;
    },
    emptyIn: (now: number) => (leaves(time(now)).at(-1) ?? now) - now,
    requestsOfDay(at: number): number {
      const day = Math.floor(at / dayMs);
      const ofDay = charges.filter((charge) => Math.floor(charge.at / dayMs) === day);
      return ofDay.reduce((total, { requests }) => total + requests, 0);
    },
  };
}

const noLimit: Amount = { requests: Number.POSITIVE_INFINITY, tokens: Number.POSITIVE_INFINITY };

function definedOf(limit: Partial<Record<keyof Amount, number | undefined>>): Partial<Amount> {
  return Object.fromEntries(Object.entries(limit).filter(([, value]) => value !== undefined));
}
