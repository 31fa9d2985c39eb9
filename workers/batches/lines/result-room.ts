import { LRUCache } from 'lru-cache';
import { lineBytesMax } from '../../../shared/batches/batch.ts';
import { giveBackBytes, lineBytesReserved, noteRefused, refusedBytes } from '../../../shared/batches/batch-room.ts';
import {
  type AccountBytes,
  type BatchStore,
  readAccountBytes,
  tidyRoom,
} from '../../../shared/store/records/batch-store.ts';

/** A result, with the bytes that it takes in its file. A failure is small, and is always kept. */
export type SizedResult = { bytes: number; isFailure: boolean };
type Owner = { account: string; batch: string };

type Line = Owner & { outputTokensMax: number; choices: number };

/** About what JSON takes around the text of an answer, and its text for each token. */
const bytesAroundText = 1_024;
const bytesPerToken = 4;
/** For an answer that is not generated: vectors, or ranks. */
const bytesOfOthers = 65_536;

/** What an answer of the line may well have. One with log probabilities has more. */
export function expectedBytes({ outputTokensMax, choices }: Pick<Line, 'outputTokensMax' | 'choices'>): number {
  if (outputTokensMax === 0) return bytesOfOthers;
  return Math.min(lineBytesMax, bytesAroundText + outputTokensMax * choices * bytesPerToken);
}

/** The room of accounts for the results of their lines (contract.md#ho6-room-of-accounts). Fails as the store does. */
export function createResultRoom({
  store,
  known,
  bytesMax,
  now = Date.now,
}: {
  store: Pick<BatchStore, 'changeRoom' | 'takeBytes'>;
  known: KnownBytes;
  /** What an account may hold. */
  bytesMax: () => number;
  now?: () => number;
}) {
  /** The bytes that are held for lines that run, by account. */
  const held = new Map<string, number>();

  function changeHeld(account: string, bytes: number): void {
    const next = (held.get(account) ?? 0) + bytes;
    if (next === 0) held.delete(account);
    else held.set(account, next);
  }

  /** Of the results that do not fit together, those that still do, one after another. */
  async function takeSome({ account, batch }: Owner, results: readonly SizedResult[]): Promise<boolean[]> {
    known.forget(account);
    const { bytes, fileBytes } = await known.lookClosely(account);
    const fit = fitting(results, bytesMax() - bytes);
    const sum = beyondReserved(results.filter((result, index) => fit[index] && !result.isFailure));
    const isTaken =
      sum === 0 || (await store.takeBytes(account, { batch, bytes: sum, bytesMax: bytesMax() - fileBytes })) !== 'full';
    const kept = results.map(({ isFailure }, index) => isFailure || (isTaken && fit[index] === true));
    const refused = results.filter((_, index) => !kept[index]).map((result) => beyondReserved([result]));
    if (refused.length > 0) await store.changeRoom(account, noteRefused(Math.max(...refused), now()));
    known.forget(account);
    return kept;
  }

  return {
    /**
     * Before a line runs. Holds room for its answer until that is stored: in this process other lines cannot hold the same. `full`: there
     * is not enough room. `later`: there is, after lines that run now have ended.
     */
    async hold(line: Line): Promise<Disposable | 'later' | 'full'> {
      const { account, batch } = line;
      const roomIn = ({ room, bytes }: AccountBytes) => ({
        // Without an entry the batch is over, and the line will not run.
        left: room.entries[batch] === undefined ? Number.POSITIVE_INFINITY : bytesMax() - bytes,
        wanted: Math.max(expectedBytes(line), refusedBytes(room, now())),
      });
      let { left, wanted } = roomIn(await known.look(account));
      if (left < wanted) ({ left, wanted } = roomIn(await known.lookClosely(account)));
      if (left < wanted) return 'full';
      if (left - (held.get(account) ?? 0) < wanted) return 'later';
      changeHeld(account, wanted);
      return { [Symbol.dispose]: () => changeHeld(account, -wanted) };
    },

    /** Counts the bytes of results of one batch beyond those that are reserved for each line. Returns which of them have room. */
    async take(of: Owner, results: readonly SizedResult[]): Promise<boolean[]> {
      const { account, batch } = of;
      const failures = beyondReserved(results.filter(({ isFailure }) => isFailure));
      if (failures > 0) await store.takeBytes(account, { batch, bytes: failures, bytesMax: Number.MAX_SAFE_INTEGER });
      const bytes = beyondReserved(results.filter(({ isFailure }) => !isFailure));
      if (bytes === 0) return results.map(() => true);
      const seen = await known.look(account);
      const taking = await store.takeBytes(account, { batch, bytes, bytesMax: bytesMax() - seen.fileBytes });
      if (taking === 'full') return takeSome(of, results);
      // Lines that begin before the next look count these bytes, too: they are no longer held for this line.
      seen.bytes += bytes;
      return results.map(() => true);
    },

    /** Takes back the bytes of results that were counted, and were stored before. */
    async giveBack({ account, batch }: Owner, results: readonly SizedResult[]): Promise<void> {
      const bytes = beyondReserved(results);
      if (bytes > 0) await store.changeRoom(account, giveBackBytes(batch, bytes));
    },
  };
}

export type ResultRoom = ReturnType<typeof createResultRoom>;

function fitting(results: readonly SizedResult[], bytesMax: number): boolean[] {
  let left = bytesMax;
  return results.map((result) => {
    if (result.isFailure) return true;
    const bytes = beyondReserved([result]);
    if (bytes > left) return false;
    left -= bytes;
    return true;
  });
}

function beyondReserved(results: readonly SizedResult[]): number {
  return results.reduce((sum, { bytes }) => sum + Math.max(0, bytes - lineBytesReserved), 0);
}

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

type KnownBytes = ReturnType<typeof createKnownBytes>;
