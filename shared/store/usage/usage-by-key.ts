import { storeUnavailable } from '../adapters/store-errors.ts';
import { detailPages } from './compare-month.ts';
import type { CompleteDetails } from './complete-details.ts';
import type { UsageDetail } from './usage-details.ts';
import type { UsageMonth } from './usage-sums.ts';
import { isDetailed, type UsageTables } from './usage-tables.ts';

/** The requests of a key, and the tokens that were charged for them. */
export type KeyUsage = Pick<UsageDetail['counts'], 'requests' | 'chargedTokens'>;

/** A month's usage by key. Both fail with `SERVICE_UNAVAILABLE` also while details with very many requests are being completed. */
export interface UsageByKey {
  /** Returns the details of a month that belong to this key. */
  findKeyUsage(key: UsageMonth & { keyId: string }): Promise<UsageDetail[]>;

  /** Returns a month's usage by the id of the key that was used. */
  findUsageByKey(month: UsageMonth): Promise<ReadonlyMap<string, KeyUsage>>;
}

/** `completeDetails` returns false if that would take long. */
export function createUsageByKey(
  tables: UsageTables,
  completeDetails: (month: UsageMonth) => ReturnType<CompleteDetails>,
): UsageByKey {
  /** Reads the details of the month, or of one key in it, in pieces. */
  async function* detailsOf(month: UsageMonth, keyId?: string): AsyncIterable<UsageDetail[]> {
    const kept = await tables.readSum(month);
    const isComplete = kept === undefined || isDetailed(kept) || (await completeDetails(month));
    if (!isComplete) throw storeUnavailable(new Error('the details of this month are being completed'));
    for await (const page of detailPages(tables, month, '', keyId)) yield page.map(({ detail }) => detail);
  }

  return {
    async findKeyUsage({ keyId, ...month }) {
      const found: UsageDetail[] = [];
      for await (const page of detailsOf(month, keyId)) found.push(...page);
      return found;
    },
    async findUsageByKey(month) {
      const usages = new Map<string, KeyUsage>();
      for await (const page of detailsOf(month)) {
        for (const { keyId, counts } of page) {
          const usage = usages.get(keyId) ?? { requests: 0, chargedTokens: 0 };
          usage.requests += counts.requests;
          usage.chargedTokens += counts.chargedTokens;
          usages.set(keyId, usage);
        }
      }
      return usages;
    },
  };
}
