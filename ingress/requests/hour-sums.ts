import { LRUCache } from 'lru-cache';
import { type DayRange, hourOf, type UsageStore } from '../../shared/store/usage/usage-store.ts';
import type { HourGroup, HourSum, RefusalSum } from '../../shared/store/usage/usage-tables.ts';

const hourMs = 3_600_000;
/** So long after an hour has ended, hardly any request of it is still to be stored. */
const settledAfterMs = 2 * hourMs;
const keptMs = { settled: 600_000, current: 5_000 };
/** Eight days of hours, for two combinations of groups. */
const hoursMax = 400;
/** About 100 MB. */
const sumsMax = 200_000;

/** The usage of all accounts in one hour (`YYYY-MM-DDTHH`), and the refused requests by code and account. */
export type SummedHour = { hour: string; usage: HourSum[]; refusals: RefusalSum[] };

/**
 * Reads the usage of hours over all accounts, one hour at a time, each summed by the database. An hour that has long ended is kept for ten
 * minutes and others for five seconds, so several operators cost the database no more than one.
 */
export function createHourSums({ store, now = Date.now }: { store: Pick<UsageStore, 'sumHour'>; now?: () => number }) {
  const hours = new LRUCache<string, SummedHour>({
    max: hoursMax,
    maxSize: sumsMax,
    sizeCalculation: ({ usage, refusals }) => 1 + usage.length + refusals.length,
    perf: { now },
    ttlResolution: 0,
  });

  async function readHour(hour: string, groups: readonly HourGroup[]): Promise<SummedHour> {
    const id = `${hour} ${groups.join()}`;
    const known = hours.get(id);
    if (known !== undefined) return known;
    const sums = { hour, ...(await store.sumHour(hour, groups)) };
    const isSettled = now() - Date.parse(`${hour}:00Z`) > hourMs + settledAfterMs;
    hours.set(id, sums, { ttl: isSettled ? keptMs.settled : keptMs.current });
    return sums;
  }

  return {
    /** Those of the range up to now, in their order. */
    async *read({ start, end }: DayRange, groups: readonly HourGroup[]): AsyncGenerator<SummedHour> {
      const last = Math.min(Date.parse(`${end}:00Z`), now());
      for (let time = Date.parse(`${start}:00Z`); time <= last; time += hourMs)
        yield await readHour(hourOf(time), groups);
    },
  };
}

export type HourSums = ReturnType<typeof createHourSums>;
