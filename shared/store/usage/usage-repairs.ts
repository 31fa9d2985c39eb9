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
  detailId,
  hourPlacesMax,
  type KeptDetail,
  placeOf,
  recordPages,
  restOf,
  startOf,
  type UsageTables,
  type UsageUnit,
} from './usage-tables.ts';

/** `kept`: the stored sum. `recomputed`: that of the records. `wrongDetails`: how many details are wrong or missing. */
export type RecomputedUsage = { kept: UsageSum | undefined; recomputed: UsageSum | undefined; wrongDetails: number };

const repairAttemptsMax = 50;

/**
 * Compares months with their records, and repairs them (contract.md#r5-sums, contract.md#r11-details). `hoursFrom` returns the first hour
 * that is certainly kept: no earlier one is looked at.
 */
export function createUsageRepairs(tables: UsageTables, hoursFrom: () => string) {
  /**
   * Returns the stored sum, the sum recomputed from the records up to the later of its own `lastEntry` and `upTo`, which is an entry or
   * empty, and how many details are wrong. Correct also while records arrive. A record that arrives out of order (an entry at or before
   * `lastEntry`) appears as a difference until its caller has repaired the month.
   */
  async function recompute(doubtful: DoubtfulMonth): Promise<RecomputedUsage> {
    const { month, kept, lastEntry } = await look(doubtful);
    let wrongDetails = 0;
    const total = await compare(month, {
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
    const total = await compare(month, {
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

  async function compare(month: UsageMonth, comparison: Omit<Comparison, 'unit' | 'from'>): Promise<UsageCounts> {
    const total = await compareMonth(tables, month, { ...comparison, unit: 'day', from: '' });
    const from = hoursFrom();
    if (from.slice(0, month.month.length) <= month.month)
      await compareMonth(tables, month, { ...comparison, unit: 'hour', from });
    return total;
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

/** About 10 MB. The details of one day or hour are held together, even if they are more. */
const detailsMaxDefault = 20_000;
const detailsAtOnce = 500;

type Comparison = {
  unit: UsageUnit;
  /** The first day or hour that is compared. */
  from: string;
  /** The total is that of the records up to this entry. */
  sumTo: string;
  /** Details must contain every record up to this entry, and may be ahead of it. */
  detailsTo: string;
  /** Receives details that are wrong or missing, with what they should be. */
  onWrong: (changes: DetailChange[]) => Promise<void>;
  detailsMax?: number;
};

/**
 * Recomputes a month's total from its records, and compares its details of a unit with them. It is correct while records arrive in order.
 * Its memory is bounded: it reads the records again for each group of days or hours.
 */
export async function compareMonth(
  tables: Pick<UsageTables, 'readRecords' | 'readDetails'>,
  month: UsageMonth,
  { unit, from: first, sumTo, detailsTo, onWrong, detailsMax = detailsMaxDefault }: Comparison,
): Promise<UsageCounts> {
  const total = { ...noDetailCounts };
  const sum = (record: SummedRecord) => record.entry <= sumTo && addRecord(total, record);
  for (let from: string | undefined = first; from !== undefined; ) {
    const isFirst = from === first;
    const group = createDetailGroup({ month, unit, from, completeTo: detailsTo, detailsMax });
    for await (const page of detailPages(tables, month, { unit, from })) if (!group.keep(page)) break;
    const upTo = isFirst && sumTo > group.lastEntry() ? sumTo : group.lastEntry();
    for await (const records of recordPages(tables, month, upTo)) {
      if (isFirst) records.forEach(sum);
      group.count(records);
    }
    const changes = group.changes();
    if (changes.length > 0) await onWrong(changes);
    from = group.end();
  }
  return totalOf([total]);
}

type Pages = { unit: UsageUnit; from?: string; keyId?: string | undefined };

/** Reads the details of a month, or of one key in it, from this day or hour on. */
export async function* detailPages(
  tables: Pick<UsageTables, 'readDetails'>,
  month: UsageMonth,
  { unit, from = '', keyId }: Pages,
): AsyncGenerator<KeptDetail[]> {
  for (let next: { after: DetailPlace } | { from: string } = { from }; ; ) {
    const page = await tables.readDetails(month, { ...next, unit, keyId, limit: detailsAtOnce });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < detailsAtOnce) return;
    next = { after: last.detail };
  }
}

/** A detail as it should be. `upTo`: its records up to this entry count. */
type ExpectedDetail = { place: DetailPlace; kept: KeptDetail | undefined; counts: DetailCounts; upTo: string };

type Group = { month: UsageMonth; unit: UsageUnit; from: string; completeTo: string; detailsMax: number };

/** The details of as many days or hours as fit, from `from` up to but not including `end`; undefined if all fit. */
function createDetailGroup({ month, unit, from, completeTo, detailsMax }: Group) {
  const starts = new Map<string, Map<string, ExpectedDetail>>();
  const placeWithRoom = createPlaceWithRoom();
  let [size, lastEntry] = [0, completeTo];
  let end: string | undefined;
  const covers = (start: string) => start >= from && (end === undefined || start < end);

  function find(place: DetailPlace): ExpectedDetail | undefined {
    if (!covers(place.start)) return undefined;
    const ofStart = starts.get(place.start) ?? new Map<string, ExpectedDetail>();
    starts.set(place.start, ofStart);
    const id = detailId(place);
    const found = ofStart.get(id);
    if (found !== undefined) return found;
    const expected = { place, kept: undefined, counts: { ...noDetailCounts }, upTo: completeTo };
    ofStart.set(id, expected);
    size += 1;
    shrink();
    return covers(place.start) ? expected : undefined;
  }

  function shrink(): void {
    while (size > detailsMax && starts.size > 1) {
      const last = [...starts.keys()].reduce((one, other) => (one > other ? one : other));
      size -= starts.get(last)?.size ?? 0;
      starts.delete(last);
      end = last;
    }
  }

  return {
    /** Adds kept details, in order of days or hours. Returns false once the next ones do not fit. */
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
        if (!covers(startOf(record, unit))) continue;
        const expected = find(placeWithRoom(placeOf(month, record, unit)));
        if (expected !== undefined && record.entry <= expected.upTo) addRecord(expected.counts, record);
      }
    },
    changes(): DetailChange[] {
      const all = [...starts.values()].flatMap((ofStart) => [...ofStart.values()]);
      const wrong = all.filter(({ kept, counts }) =>
        kept === undefined ? counts.requests > 0 : !isDeepStrictEqual(kept.detail.counts, counts),
      );
      return wrong.map(({ place, kept, counts, upTo }) => ({ detail: { ...place, counts, lastEntry: upTo }, kept }));
    },
    /** The last entry that a detail can contain. */
    lastEntry: () => lastEntry,
    end: () => end,
  };
}

/** Returns the place that counts a record of an hour, whose first places are those of its first records. */
function createPlaceWithRoom(): (place: DetailPlace) => DetailPlace {
  const hours = new Map<string, Set<string>>();
  return (place) => {
    if (place.unit === 'day') return place;
    const taken = hours.get(place.start) ?? new Set();
    hours.set(place.start, taken);
    const id = detailId(place);
    if (!taken.has(id) && taken.size >= hourPlacesMax) return restOf(place);
    taken.add(id);
    return place;
  };
}
