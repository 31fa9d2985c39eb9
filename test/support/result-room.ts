import type { Store } from '../../shared/store/records/store.ts';
import { createKnownBytes, createResultRoom, type ResultRoom } from '../../workers/batches/lines/result-room.ts';

/** The room of accounts for results, as a worker has it. `clock` is that of what it has read. */
export function openResultRoom(
  { batches: store }: Pick<Store, 'batches'>,
  bytesMax: () => number,
  clock: { now(): number } = performance,
): ResultRoom {
  const known = createKnownBytes({ store, clock, now: async () => Date.now() });
  return createResultRoom({ store, known, bytesMax });
}

/** A room without limits that counts nothing. */
export const endlessRoom: ResultRoom = {
  hold: async () => ({ [Symbol.dispose]() {} }),
  take: async (_of, results) => results.map(() => true),
  giveBack: async () => {},
};
