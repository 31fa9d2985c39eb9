import type { Prices } from '../../shared/plan-file/plan-file.ts';
import type { UsageDetail } from '../../shared/store/usage/usage-details.ts';

/** A price in the plan file has at most this many digits after the point. */
const priceDigits = 9;
/** Prices are for a million tokens. */
const costDigits = priceDigits + 6;

/** Amounts are whole numbers of 10⁻¹⁵ of the currency, so that every sum is exact (contract.md#j1-usage-reports). */
export type Pricing = { currency: string; costOf(detail: PricedUsage): bigint | undefined };

type PricedUsage = Pick<UsageDetail, 'day' | 'model' | 'counts'>;

/** Undefined if the plan file has no prices. The cost of usage is undefined if its model has no price on its day. */
export function createPricing({ prices, currency }: Prices): Pricing | undefined {
  if (prices === undefined) return undefined;
  return {
    currency,
    costOf({ day, model, counts: { promptTokens, cachedTokens, completionTokens } }) {
      const price = prices[model]?.findLast(({ from }) => from <= day);
      if (price === undefined) return undefined;
      const { prompt, cached = prompt, completion } = price;
      return (
        BigInt(promptTokens - cachedTokens) * unitsOf(prompt) +
        BigInt(cachedTokens) * unitsOf(cached) +
        BigInt(completionTokens) * unitsOf(completion)
      );
    },
  };
}

function unitsOf(price: string): bigint {
  const [whole = '', fraction = ''] = price.split('.');
  return BigInt(whole + fraction.padEnd(priceDigits, '0'));
}

/** A decimal text without an exponent and without zeros at its end: `0.0000036`. */
export function formatCost(cost: bigint): string {
  const digits = String(cost).padStart(costDigits + 1, '0');
  const [whole, fraction] = [digits.slice(0, -costDigits), digits.slice(-costDigits).replace(/0+$/, '')];
  return fraction === '' ? whole : `${whole}.${fraction}`;
}
