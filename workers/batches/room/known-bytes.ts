import { LRUCache } from 'lru-cache';
import { type AccountBytes, readAccountBytes, tidyRoom } from '../../../shared/store/batches/account-bytes.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';

/** What accounts hold, read at most once a second for each. */
export interface KnownBytes {
  look(account: string): Promise<AccountBytes>;
  /** After the entries of batches that are gone have left. For an account that seems to have no room. */
  lookClosely(account: string): Promise<AccountBytes>;
  /** The next look reads again. */
  forget(account: string): void;
}

const accountsMax = 1_000;
const keptMs = 1_000;

export function createKnownBytes({
  store,
  now,
  clock = performance,
}: {
  store: Pick<BatchStore, 'changeRoom' | 'countFiles' | 'findBatch' | 'findRoom' | 'listOpenBatches'>;
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  clock?: { now(): number };
}): KnownBytes {
  const looked = keepShortly((account) => readAccountBytes(store, account), clock);
  const lookedClosely = keepShortly(async (account) => {
    await tidyRoom(store, { account, now: await now() });
    return readAccountBytes(store, account);
  }, clock);
  return {
    look: looked.get,
    lookClosely: lookedClosely.get,
    forget(account) {
      looked.forget(account);
      lookedClosely.forget(account);
    },
  };
}

/** Keeps what was read for a second. A failure is not kept. */
function keepShortly(read: (account: string) => Promise<AccountBytes>, clock: { now(): number }) {
  const kept = new LRUCache<string, Promise<AccountBytes>>({
    ...{ max: accountsMax, ttl: keptMs, ttlResolution: 0, perf: clock },
  });

  function readNow(account: string): Promise<AccountBytes> {
    const reading = read(account);
    kept.set(account, reading);
    reading.catch(() => kept.peek(account) === reading && kept.delete(account));
    return reading;
  }

  return {
    get: (account: string) => kept.get(account) ?? readNow(account),
    forget: (account: string) => void kept.delete(account),
  };
}
