import {
  addRecord,
  compare,
  countNames,
  type DetailCounts,
  noCounts,
  noDetailCounts,
  type RecordPage,
  type SummedRecord,
  type UsageCounts,
  type UsageMonth,
  type UsageRecord,
  type UsageSum,
} from './usage-record.ts';

/** Usage is counted by day, and by hour for some weeks. */
export const usageUnits = ['day', 'hour'] as const;
export type UsageUnit = (typeof usageUnits)[number];

/**
 * What a detail counts: the requests of an account with one key, for one model and endpoint, admitted on one day (`start`: `YYYY-MM-DD`,
 * UTC) or in one hour (`YYYY-MM-DDTHH`). `code`: those of an hour that ended so (`endCodeOf`); empty for a day.
 */
export type DetailPlace = UsageMonth & {
  unit: UsageUnit;
  start: string;
  model: string;
  keyId: string;
  endpoint: string;
  code: string;
};

/** It contains every record of its place whose `entry` is at or before `lastEntry` (contract.md#r11-details). */
export type UsageDetail = DetailPlace & { counts: DetailCounts; lastEntry: string };

/** Records to add, in the order of their entries, unless the stored sum or detail already contains them. */
export type Addition = { unsummed: readonly SummedRecord[] };

/** The records of a batch for one detail. `lastEntry` is the last of their entries. */
export type DetailBatch = DetailPlace & Addition & { lastEntry: string };

/** The usage of an account for one model, by requests admitted on one day: `YYYY-MM-DD`, UTC. */
export type UsageDay = { day: string; model: string } & UsageCounts;

const startLengths = { day: 10, hour: 13 };

export function startOf({ admittedAt }: Pick<SummedRecord, 'admittedAt'>, unit: UsageUnit): string {
  return admittedAt.toISOString().slice(0, startLengths[unit]);
}

/** How a request ended: the code of its error, else its outcome. */
export function endCodeOf({ code, outcome }: Pick<SummedRecord, 'code' | 'outcome'>): string {
  return code ?? outcome;
}

/** The place of a record in the details of this unit. */
export function placeOf({ account, month }: UsageMonth, record: SummedRecord, unit: UsageUnit): DetailPlace {
  const { model, keyId, endpoint } = record;
  const code = unit === 'hour' ? endCodeOf(record) : '';
  return { account, month, unit, start: startOf(record, unit), model, keyId, endpoint, code };
}

/**
 * An account has at most so many details of one hour (contract.md#r13-hours): further combinations are counted together, in the place that
 * `restOf` returns.
 */
export const hourPlacesMax = 2_000;
const rest = 'other';

export function restOf(place: DetailPlace): DetailPlace {
  return { ...place, model: rest, keyId: rest, endpoint: rest, code: rest };
}

/**
 * The text of a detail's place. Two places of a unit have different texts, whatever the names contain. The places of one month follow each
 * other in order of their texts, and within a month those of one day or hour.
 */
export function detailId(place: Omit<DetailPlace, 'unit'>): string {
  const { account, month, start, model, keyId, endpoint, code } = place;
  return JSON.stringify([account, month, start, model, keyId, endpoint, code]);
}

/** Groups records of a month by the detail that counts them. They stay in their order. */
export function byDetail(
  records: Iterable<SummedRecord>,
  placeFor: (record: SummedRecord) => DetailPlace,
): DetailBatch[] {
  const batches = new Map<string, DetailPlace & { unsummed: SummedRecord[]; lastEntry: string }>();
  for (const record of records) {
    const place = placeFor(record);
    const id = detailId(place);
    const found = batches.get(id);
    if (found === undefined) batches.set(id, { ...place, unsummed: [record], lastEntry: record.entry });
    else {
      found.unsummed.push(record);
      found.lastEntry = record.entry;
    }
  }
  return [...batches.values()];
}

export function countsOf(records: Iterable<SummedRecord>): DetailCounts {
  const counts = { ...noDetailCounts };
  for (const record of records) addRecord(counts, record);
  return counts;
}

/** Sums details of days by day and model, also if they arrive in pieces. */
export function createDayTally(): {
  add(details: Iterable<Pick<UsageDetail, 'start' | 'model' | 'counts'>>): void;
  days(): UsageDay[];
} {
  const days = new Map<string, UsageDay>();
  return {
    add(details) {
      for (const { start: day, model, counts } of details) {
        const key = `${day} ${model}`;
        const sum = days.get(key) ?? { day, model, ...noCounts };
        days.set(key, sum);
        for (const name of countNames) sum[name] += counts[name];
      }
    },
    // A repair leaves a detail that should not exist, with counts of 0.
    days: () => inOrder([...days.values()].filter(({ requests }) => requests > 0)),
  };
}

/** Sorts by day, then by model. */
function inOrder(days: readonly UsageDay[]): UsageDay[] {
  return days.toSorted((one, other) => compare(one.day, other.day) || compare(one.model, other.model));
}

/**
 * The usage operations that each store implements (usage-store.ts adds the rest). Each write is atomic for each sum and each detail, and is
 * refused if it has changed. Each call is short for any input.
 */
export interface UsageTables {
  /**
   * Inserts the records whose id is new, then adds to details and sums the records whose entry is after their last entry, in this order, so
   * that a sum never contains a request without a record, or that its details do not contain. Hours before `hoursFrom` get no details. All
   * records must be of one partition; repeat the call if it fails. Returns the months with an entry that may not be counted correctly.
   */
  take(records: readonly UsageRecord[], hoursFrom: string): Promise<DoubtfulMonth[]>;

  /** Adds refusals whose entry is after the last one of their place. All must be of one partition; repeat the call if it fails. */
  takeRefusals(refusals: readonly Refusals[]): Promise<void>;

  readSum(month: UsageMonth): Promise<KeptSum | undefined>;

  /** Reads the records of a month with `after` < `entry` ≤ `upTo`, by entry: the first `limit` of them. */
  readRecords(month: UsageMonth, range: { after: string; upTo: string; limit: number }): Promise<SummedRecord[]>;

  /** Reads a month's details of a unit, by day or hour: the first `limit` after this place, or from this day or hour. */
  readDetails(month: UsageMonth, page: DetailPage): Promise<KeptDetail[]>;

  /** Reads a month's details of days of all accounts, by account and then by day: the first `limit` after this one. */
  readMonthDetails(month: string, page: { after: UsageDetail | undefined; limit: number }): Promise<UsageDetail[]>;

  /** The counts of one hour of all accounts, by these groups. */
  sumHour(hour: string, groups: readonly HourGroup[]): Promise<HourSum[]>;

  /** The refusals of an account in these hours, both included, by hour. */
  readRefusals(account: string, range: { start: string; end: string }): Promise<Refusals[]>;

  /** Those of one hour of all accounts, by code, and by account if that is one of the groups; else their `account` is empty. */
  sumRefusals(hour: string, groups: readonly HourGroup[]): Promise<RefusalSum[]>;

  /** The order of accounts in `readMonthDetails`, as a comparison of two. */
  compareAccounts(one: string, other: string): number;

  /** Writes this sum if the stored one is still `kept`; returns false if it is not. Details must be right up to the sum's `lastEntry`. */
  replaceSum(sum: UsageSum, kept: KeptSum | undefined): Promise<boolean>;

  /** Writes those details that are still as they were kept; returns false if one is not. */
  replaceDetails(month: UsageMonth, changes: readonly DetailChange[]): Promise<boolean>;

  /** Returns the first account and month after this one that has a sum or a record. */
  nextMonth(after: UsageMonth): Promise<UsageMonth | undefined>;

  findRecord(requestId: string): Promise<UsageRecord | undefined>;

  /** Finds the account's latest record with this id of an answer. */
  findByAnswer(account: string, answerId: string): Promise<UsageRecord | undefined>;

  /** Lists the account's records by admission. Looks at no more than it returns. */
  listRecords(account: string, page: RecordPage): Promise<UsageRecord[]>;

  /**
   * Removes a piece of the usage of the months before `month` (`YYYY-MM`): records, then details, then sums. Returns how many. Until it
   * returns 0 there are more, and the sums of those months do not match their records.
   */
  removeBefore(month: string): Promise<number>;

  /** Removes a piece of the details and refusals of hours before this one (`YYYY-MM-DDTHH`). Returns how many: until 0 there are more. */
  removeHoursBefore(hour: string): Promise<number>;
}

export type RefusalSum = Pick<Refusals, 'account' | 'code' | 'requests'>;

/**
 * How many requests of an account were refused with this code before they were admitted, in an hour. `account` and `keyId` are empty if the
 * caller is not known. `entry`: the entry of the outbox that reports them, or the last one that was added.
 */
export type Refusals = { account: string; start: string; keyId: string; code: string; requests: number; entry: string };

export const hourGroups = ['account', 'model', 'code'] as const;
export type HourGroup = (typeof hourGroups)[number];
export type HourSum = Record<HourGroup, string> & { counts: DetailCounts };

/** `upTo` is the last entry that a repair must take into account. */
export type DoubtfulMonth = UsageMonth & { upTo: string };

/**
 * `repairs` counts the repairs: of two repairs that start at the same `lastEntry`, one may not have read the records that the other has
 * read.
 */
export type KeptSum = { sum: UsageSum; repairs: number };

export type KeptDetail = { detail: UsageDetail; repairs: number };

/** `keyId`: only the details of this key. */
export type DetailPage = ({ after: DetailPlace } | { from: string }) & {
  unit: UsageUnit;
  limit: number;
  keyId?: string | undefined;
};
export type DetailChange = { detail: UsageDetail; kept: KeptDetail | undefined };

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
