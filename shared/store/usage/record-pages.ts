import type { SummedRecord } from './usage-counts.ts';
import type { UsageMonth } from './usage-sums.ts';
import type { UsageTables } from './usage-tables.ts';

const recordsAtOnce = 250;

/** Reads the records of a month up to the entry `upTo`, by entry. No entry is in two pages, unless it fills more than one. */
export async function* recordPages(
  tables: Pick<UsageTables, 'readRecords'>,
  month: UsageMonth,
  upTo: string,
): AsyncGenerator<SummedRecord[]> {
  for (let from = ''; ; ) {
    const page = await tables.readRecords(month, { after: from, upTo, limit: recordsAtOnce });
    const last = page.at(-1)?.entry;
    if (last === undefined) return;
    if (page.length < recordsAtOnce) return yield page;
    // Other records of the last entry may be left for the next page: after Redis was emptied, an entry can occur twice.
    const complete = page.filter(({ entry }) => entry < last);
    yield complete.length > 0 ? complete : page;
    from = complete.at(-1)?.entry ?? last;
  }
}
