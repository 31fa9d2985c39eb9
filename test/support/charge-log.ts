import type { Allowance } from '../../shared/limits/admit.ts';

type Charge = { at: number; tokens: number; isSettled?: true };
type Excess = { limit: 'requests' | 'tokens'; admitted: number; allowed: number };

/** Records every admission with its exact time, without buckets: the rolling minute as seen from outside. */
export function createChargeLog() {
  const charges = new Map<string, Charge>();
  let latest: { request: string; at: number; allowance: Allowance } | undefined;

  return {
    /** A repeated admission is reported with the time of the first. */
    admitted(request: string, { allowance, ...charge }: Charge & { allowance: Allowance }): void {
      latest = undefined;
      if (charges.get(request)?.at === charge.at) return;
      charges.set(request, charge);
      latest = { request, at: charge.at, allowance };
    },
    /** A repeated settlement changes nothing, whatever tokens it names. */
    settled(request: string, tokens: number): void {
      const charge = charges.get(request);
      if (charge !== undefined && !charge.isSettled) charges.set(request, { ...charge, tokens, isSettled: true });
    },
    released: (request: string) => void charges.delete(request),
    /** The amount admitted in the 60 s up to the last admission, excluding its start, if that exceeds its limit. */
    excess(records: readonly { request: string; tokens: number }[]): Excess | undefined {
      if (latest === undefined) return undefined;
      const { at, allowance } = latest;
      const { requestsPerMinute = Number.POSITIVE_INFINITY, tokensPerMinute = Number.POSITIVE_INFINITY } = allowance;
      const minute = [...charges].filter(([, charge]) => charge.at > at - 60_000 && charge.at <= at);
      // The charge of a lost request was released. Only its record shows whether it was lost.
      const isLost = (request: string) => records.some((record) => record.request === request && record.tokens === 0);
      const tokens = minute.reduce((total, [request, charge]) => total + (isLost(request) ? 0 : charge.tokens), 0);
      if (minute.length > requestsPerMinute) {
        return { limit: 'requests', admitted: minute.length, allowed: requestsPerMinute };
      }
      return tokens > tokensPerMinute ? { limit: 'tokens', admitted: tokens, allowed: tokensPerMinute } : undefined;
    },
  };
}
