import { detailPages } from './compare-month.ts';
import type { UsageDetail } from './usage-details.ts';
import type { UsageMonth } from './usage-sums.ts';
import type { UsageTables } from './usage-tables.ts';

/** The requests of a key, and the tokens that were charged for them. */
export type KeyUsage = Pick<UsageDetail['counts'], 'requests' | 'chargedTokens'>;

/** A month's usage by key. */
export interface UsageByKey {
  /** Returns the details of a month that belong to this key. */
  findKeyUsage(key: UsageMonth & { keyId: string }): Promise<UsageDetail[]>;

  /** Returns a month's usage by the id of the key that was used. */
  findUsageByKey(month: UsageMonth): Promise<ReadonlyMap<string, KeyUsage>>;
}

export function createUsageByKey(tables: UsageTables): UsageByKey {
  /** Reads the details of the month, or of one key in it, in pieces. */
  async function* detailsOf(month: UsageMonth, keyId?: string): AsyncIterable<UsageDetail[]> {
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
