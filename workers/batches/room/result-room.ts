import { giveBackBytes, lineBytesReserved, noteRefused } from '../../../shared/batches/batch-room.ts';
import type { AccountBytes } from '../../../shared/store/batches/account-bytes.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';
import type { KnownBytes } from './known-bytes.ts';

/** A result, with the bytes that it takes in its file. A failure is small, and is always kept. */
export type SizedResult = { bytes: number; isFailure: boolean };
type Owner = { account: string; batch: string };

/** The room of accounts for the results of their lines (contract.md#ho6-room-of-accounts). Fails as the store does. */
export interface ResultRoom {
  /** Whether a line may run: there is room for a result, and for as much as the last one of its batch that had none. */
  mayRun(of: Owner): Promise<boolean>;
  /** Counts the bytes of results of one batch beyond those that are reserved for each line. Returns which of them have room. */
  take(of: Owner, results: readonly SizedResult[]): Promise<boolean[]>;
  /** Takes back the bytes of results that were counted, and were stored before. */
  giveBack(of: Owner, results: readonly SizedResult[]): Promise<void>;
}

export function createResultRoom({
  store,
  known,
  bytesMax,
}: {
  store: Pick<BatchStore, 'changeRoom' | 'takeBytes'>;
  known: KnownBytes;
  /** What an account may hold. */
  bytesMax: () => number;
}): ResultRoom {
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
    if (refused.length > 0) await store.changeRoom(account, noteRefused(batch, Math.max(...refused)));
    known.forget(account);
    return kept;
  }

  return {
    async mayRun({ account, batch }) {
      const hasRoom = ({ room, bytes }: AccountBytes) => {
        const entry = room.entries[batch];
        return entry === undefined || bytesMax() - bytes >= Math.max(1, entry.refused ?? 0);
      };
      return hasRoom(await known.look(account)) || hasRoom(await known.lookClosely(account));
    },

    async take(of, results) {
      const { account, batch } = of;
      const failures = beyondReserved(results.filter(({ isFailure }) => isFailure));
      if (failures > 0) await store.takeBytes(account, { batch, bytes: failures, bytesMax: Number.MAX_SAFE_INTEGER });
      const bytes = beyondReserved(results.filter(({ isFailure }) => !isFailure));
      if (bytes === 0) return results.map(() => true);
      const { fileBytes } = await known.look(account);
      const taking = await store.takeBytes(account, { batch, bytes, bytesMax: bytesMax() - fileBytes });
      return taking === 'full' ? takeSome(of, results) : results.map(() => true);
    },

    async giveBack({ account, batch }, results) {
      const bytes = beyondReserved(results);
      if (bytes > 0) await store.changeRoom(account, giveBackBytes(batch, bytes));
    },
  };
}

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
