import { LRUCache } from 'lru-cache';
import {
  type AccountBytes,
  type BatchStore,
  readAccountBytes,
  tidyRoom,
} from '../../../shared/store/batches/batch-store.ts';

const accountsMax = 1_000;
const keptMs = 1_000;

/** What accounts hold. Within a second the same is returned. */
export function createKnownBytes({
  store,
  now,
  clock = performance,
}: {
  store: Pick<BatchStore, 'changeRoom' | 'countFiles' | 'findBatch' | 'findRoom' | 'listOpenBatches'>;
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  clock?: { now(): number };
}) {
  const known = new LRUCache<string, { reading: Promise<AccountBytes>; isClose: boolean }>({
    max: accountsMax,
    ttl: keptMs,
    ttlResolution: 0,
    perf: clock,
  });

  async function readClosely(account: string): Promise<AccountBytes> {
    await tidyRoom(store, { account, now: await now() });
    return readAccountBytes(store, account);
  }

  /** A failure is not kept. */
  function keep(account: string, reading: Promise<AccountBytes>, isClose: boolean): Promise<AccountBytes> {
    const entry = { reading, isClose };
    known.set(account, entry);
    reading.catch(() => known.peek(account) === entry && known.delete(account));
    return reading;
  }

  return {
    look: (account: string): Promise<AccountBytes> =>
      known.get(account)?.reading ?? keep(account, readAccountBytes(store, account), false),
    /** After the entries of batches that are gone have left. For an account that seems to have no room. */
    lookClosely(account: string): Promise<AccountBytes> {
      const entry = known.get(account);
      return entry?.isClose ? entry.reading : keep(account, readClosely(account), true);
    },
    /** The next look reads again. */
    forget: (account: string): void => void known.delete(account),
  };
}

export type KnownBytes = ReturnType<typeof createKnownBytes>;
