import type { StoredFile } from '../../shared/batches/batch.ts';
import type { Rest } from '../../shared/concurrency/in-turn.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import { temporarilyUnavailable } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { claimOf } from './account-room.ts';
import { type CountLines, createCountLines, type LineCount } from './count-lines.ts';

/** The fields of a file that are known before its bytes arrive. */
export type ComingFile = Pick<StoredFile, 'id' | 'account' | 'keyId' | 'createdAt' | 'expiresAt'>;

/** How long the response waits for the removal, which continues after that. */
const discardMs = 2_000;
/** Maximum time that counting may block the event loop. */
const busyMs = 10;
const countedAtOnce = 4_096;

/** Inserts the record before the bytes, so that an interrupted upload is found by its record (contract.md#r8-files). */
export function receiveFile(
  coming: ComingFile,
  {
    store,
    requestsMax,
    announced,
    requireRoom,
    log,
    rest,
  }: {
    store: Pick<Store, 'batches' | 'files'>;
    requestsMax: number;
    /** The length that the client has announced; undefined if it has not. */
    announced: number | undefined;
    /** Fails if what the account holds by now, with this file, is too much. */
    requireRoom: () => Promise<void>;
    log: Log;
    rest: Rest;
  },
) {
  let begun = false;

  /** The record has more bytes than have arrived, so that a file counts before its bytes are stored, and uploads at once fit together. */
  async function* claimed(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let arrived = 0;
    let claim = claimOf(arrived, announced);
    for await (const piece of bytes) {
      arrived += piece.byteLength;
      if (arrived > claim) {
        claim = claimOf(arrived, announced);
        await store.batches.changeFile(coming.id, 'writing', { bytes: claim });
        await requireRoom();
      }
      yield piece;
    }
  }

  async function remove(): Promise<void> {
    try {
      await store.files.remove(coming.id);
      await store.batches.removeFile(coming.id);
    } catch (error) {
      log.warn(
        { err: error, file: coming.id },
        'an interrupted upload could not be removed; the workers will remove it',
      );
    }
  }

  return {
    /** Writes the bytes as they arrive. */
    async take(filename: string, bytes: AsyncIterable<Uint8Array>): Promise<StoredFile> {
      const file = {
        ...coming,
        filename,
        purpose: 'batch',
        bytes: claimOf(0, announced),
        lines: 0,
        tokens: 0,
      } as const;
      begun = true;
      if (!(await store.batches.insertFile({ ...file, state: 'writing' })))
        throw new Error('the id of a new file already exists');
      await requireRoom();
      const counting = createCountLines({ linesMax: requestsMax });
      let count: LineCount = { lines: 0, tokens: 0 };
      async function* counted() {
        yield* countedPieces(claimed(bytes), counting, rest);
        count = counting.end();
      }
      const written = await store.files.write(coming.id, counted());
      return { ...file, ...count, bytes: written, state: 'ready' };
    },
    /** Makes the file `ready`, for this time or else the usual one. */
    async keep(file: StoredFile, keptSeconds: number | undefined): Promise<StoredFile> {
      const { state, bytes, lines, tokens, createdAt } = file;
      const expiresAt =
        keptSeconds === undefined ? file.expiresAt : new Date(createdAt.getTime() + keptSeconds * 1_000);
      const kept = await store.batches.changeFile(coming.id, 'writing', { state, bytes, lines, tokens, expiresAt });
      if (!kept) throw temporarilyUnavailable(new Error('a file was removed before its upload was complete'));
      return { ...file, expiresAt };
    },
    /** Removes the unfinished file if `take` was called. If the store is unreachable, the sweep of the workers removes it later. */
    async discard(): Promise<void> {
      if (begun) await within(discardMs, remove());
    },
  };
}

/** One file that is being stored; not visible to others before it is `ready`. */
export type Reception = ReturnType<typeof receiveFile>;

async function* countedPieces(
  bytes: AsyncIterable<Uint8Array>,
  { push }: CountLines,
  rest: Rest,
): AsyncGenerator<Uint8Array> {
  let workMs = 0;
  for await (const piece of bytes) {
    // A chunk can have tens of thousands of lines, and end a line that takes 0.2 s.
    for (let from = 0; from < piece.byteLength; from += countedAtOnce) {
      const since = performance.now();
      push(piece.subarray(from, from + countedAtOnce));
      workMs += performance.now() - since;
      if (workMs < busyMs) continue;
      await rest(workMs);
      workMs = 0;
    }
    yield piece;
  }
}
