import { isDeepStrictEqual } from 'node:util';
import { pauseBeforeRetry, storeUnavailable } from '../documents.ts';
import {
  addRecord,
  type DetailCounts,
  noDetailCounts,
  type SummedRecord,
  totalOf,
  type UsageCounts,
  type UsageMonth,
  type UsageSum,
} from './usage-record.ts';
import {
  type DetailChange,
  type DetailPlace,
  type DoubtfulMonth,
  dayOf,
  detailId,
  type KeptDetail,
  recordPages,
  type UsageTables,
} from './usage-tables.ts';

/** `kept`: the stored sum. `recomputed`: that of the records. `wrongDetails`: how many details are wrong or missing. */
export type RecomputedUsage = { kept: UsageSum | undefined; recomputed: UsageSum | undefined; wrongDetails: number };

const repairAttemptsMax = 50;

/** Compares months with their records, and repairs them (contract.md#r5-sums, contract.md#r11-details). */
export function createUsageRepairs(tables: UsageTables) {
  /**
   * Returns the stored sum, the sum recomputed from the records up to the later of its own `lastEntry` and `upTo`, which is an entry or
   * empty, and how many details are wrong. Correct also while records arrive. A record that arrives out of order (an entry at or before
   * `lastEntry`) appears as a difference until its caller has repaired the month.
   */
  async function recompute(doubtful: DoubtfulMonth): Promise<RecomputedUsage> {
    const { month, kept, lastEntry } = await look(doubtful);
    let wrongDetails = 0;
    const total = await compareMonth(tables, month, {
      sumTo: lastEntry,
      detailsTo: kept?.sum.lastEntry ?? '',
      async onWrong(changes) {
        wrongDetails += changes.length;
      },
    });
    const isEmpty = kept === undefined && total.requests === 0;
    return { kept: kept?.sum, recomputed: isEmpty ? undefined : { ...month, lastEntry, total }, wrongDetails };
  }

  /**
   * Writes the result of `recompute` if it differs: details first, because they contain everything that the sum contains. Returns false if
   * it has changed in the meantime: then call it again.
   */
  async function repair(doubtful: DoubtfulMonth): Promise<boolean> {
    const { month, kept, lastEntry } = await look(doubtful);
    let areWritten = true;
    const total = await compareMonth(tables, month, {
      sumTo: lastEntry,
      detailsTo: lastEntry,
      async onWrong(changes) {
        if (!(await tables.replaceDetails(month, changes))) areWritten = false;
      },
    });
    if (!areWritten) return false;
    if (kept === undefined && total.requests === 0) return true;
    const sum = { ...month, lastEntry, total };
    if (isDeepStrictEqual(kept?.sum, sum)) return true;
    return tables.replaceSum(sum, kept);
  }

  async function look({ account, month, upTo }: DoubtfulMonth) {
    const kept = await tables.readSum({ account, month });
    const lastEntry = kept !== undefined && kept.sum.lastEntry > upTo ? kept.sum.lastEntry : upTo;
    return { month: { account, month }, kept, lastEntry };
  }

  return {
    recompute,
    repair,
    async repairUntilExact(doubtful: DoubtfulMonth): Promise<void> {
      for (let attempt = 1; !(await repair(doubtful)); attempt += 1) {
        if (attempt === repairAttemptsMax)
          throw storeUnavailable(new Error('a sum changed during each of too many repair attempts'));
        await pauseBeforeRetry(attempt);
      }
    },
  };
}

/** About 10 MB. The details of one day are held together, even if they are more. */
const detailsMaxDefault = 20_000;
const detailsAtOnce = 500;

type Comparison = {
  /** The total is that of the records up to this entry. */
  sumTo: string;
  /** Details must contain every record up to this entry, and may be ahead of it. */
  detailsTo: string;
  /** Receives details that are wrong or missing, with what they should be. */
  onWrong: (changes: DetailChange[]) => Promise<void>;
  detailsMax?: number;
};

/**
 * Recomputes a month's total from its records, and compares its details with them. It is correct while records arrive in order. Its memory
 * is bounded: it reads the records again for each group of days.
 */
export async function compareMonth(
  tables: Pick<UsageTables, 'readRecords' | 'readDetails'>,
  month: UsageMonth,
  { sumTo, detailsTo, onWrong, detailsMax = detailsMaxDefault }: Comparison,
): Promise<UsageCounts> {
  const total = { ...noDetailCounts };
  const sum = (record: SummedRecord) => record.entry <= sumTo && addRecord(total, record);
  for (let fromDay: string | undefined = ''; fromDay !== undefined; ) {
    const isFirst = fromDay === '';
    const days = createDayGroup({ month, fromDay, completeTo: detailsTo, detailsMax });
    for await (const page of detailPages(tables, month, fromDay)) if (!days.keep(page)) break;
    const upTo = isFirst && sumTo > days.lastEntry() ? sumTo : days.lastEntry();
    for await (const records of recordPages(tables, month, upTo)) {
      if (isFirst) records.forEach(sum);
      days.count(records);
    }
    const changes = days.changes();
    if (changes.length > 0) await onWrong(changes);
    fromDay = days.endDay();
  }
  return totalOf([total]);
}

/** Reads the details of a month, or of one key in it, from this day on. */
export async function* detailPages(
  tables: Pick<UsageTables, 'readDetails'>,
  month: UsageMonth,
  fromDay = '',
  keyId?: string,
): AsyncGenerator<KeptDetail[]> {
  for (let from: { after: DetailPlace } | { fromDay: string } = { fromDay }; ; ) {
    const page = await tables.readDetails(month, { ...from, keyId, limit: detailsAtOnce });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < detailsAtOnce) return;
    from = { after: last.detail };
  }
}

/** A detail as it should be. `upTo`: its records up to this entry count. */
type ExpectedDetail = { place: DetailPlace; kept: KeptDetail | undefined; counts: DetailCounts; upTo: string };

type Group = { month: UsageMonth; fromDay: string; completeTo: string; detailsMax: number };

/** The details of as many days as fit, from `fromDay` up to but not including `endDay`; undefined if all fit. */
function createDayGroup({ month, fromDay, completeTo, detailsMax }: Group) {
  const days = new Map<string, Map<string, ExpectedDetail>>();
  let [size, lastEntry] = [0, completeTo];
  let endDay: string | undefined;
  const covers = (day: string) => day >= fromDay && (endDay === undefined || day < endDay);

  function find(place: DetailPlace): ExpectedDetail | undefined {
    if (!covers(place.day)) return undefined;
    const ofDay = days.get(place.day) ?? new Map<string, ExpectedDetail>();
    days.set(place.day, ofDay);
    const id = detailId(place);
    const found = ofDay.get(id);
    if (found !== undefined) return found;
    const expected = { place, kept: undefined, counts: { ...noDetailCounts }, upTo: completeTo };
    ofDay.set(id, expected);
    size += 1;
    shrink();
    return covers(place.day) ? expected : undefined;
  }

  function shrink(): void {
    while (size > detailsMax && days.size > 1) {
      const last = [...days.keys()].reduce((one, other) => (one > other ? one : other));
      size -= days.get(last)?.size ?? 0;
      days.delete(last);
      endDay = last;
    }
  }

  return {
    /** Adds kept details, in order of days. Returns false once the next ones do not fit. */
    keep(page: readonly KeptDetail[]): boolean {
      for (const kept of page) {
        const { counts: _, lastEntry: keptEntry, ...place } = kept.detail;
        const expected = find(place);
        if (expected === undefined) return false;
        expected.kept = kept;
        if (keptEntry > expected.upTo) expected.upTo = keptEntry;
        if (keptEntry > lastEntry) lastEntry = keptEntry;
      }
      return true;
    },
    count(records: readonly SummedRecord[]): void {
      for (const record of records) {
        const { model, keyId, endpoint, entry } = record;
        const expected = find({ ...month, day: dayOf(record), model, keyId, endpoint });
        if (expected !== undefined && entry <= expected.upTo) addRecord(expected.counts, record);
      }
    },
    changes(): DetailChange[] {
      const all = [...days.values()].flatMap((ofDay) => [...ofDay.values()]);
      const wrong = all.filter(({ kept, counts }) =>
        kept === undefined ? counts.requests > 0 : !isDeepStrictEqual(kept.detail.counts, counts),
      );
      return wrong.map(({ place, kept, counts, upTo }) => ({ detail: { ...place, counts, lastEntry: upTo }, kept }));
    },
    /** The last entry that a detail can contain. */
    lastEntry: () => lastEntry,
    endDay: () => endDay,
  };
}
