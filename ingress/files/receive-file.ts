import type { StoredFile } from '../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Rest } from '../../shared/process/rests.ts';
import { within } from '../../shared/process/shutdown.ts';
import type { Store } from '../../shared/store/store.ts';
import { type CountLines, createCountLines, type LineCount } from './count-lines.ts';

/** What is known of a file before its bytes have come. */
export type ComingFile = Pick<StoredFile, 'id' | 'account' | 'createdAt' | 'expiresAt'>;

/** One file on its way into the store; nobody else sees it before it is `ready`. */
export interface Reception {
  /** Writes the bytes as they come. */
  take(filename: string, bytes: AsyncIterable<Uint8Array>): Promise<StoredFile>;
  /** From now on it is there. */
  keep(file: StoredFile): Promise<StoredFile>;
  /** Removes what `take` has begun, if it has; what the store can not be reached for is left to the workers' sweep. */
  discard(): Promise<void>;
}

/** How long a client waits for what it left behind to be removed; the removal goes on all the same. */
const discardMs = 2_000;
/** What counting may hold up everything else for, between two pieces. */
const busyMs = 10;
const countedAtOnce = 4_096;

/** The record first, then the bytes: whatever breaks off in between is found by its record. */
export function receiveFile(
  coming: ComingFile,
  {
    store,
    requestsMax,
    log,
    rest,
  }: { store: Pick<Store, 'batches' | 'files'>; requestsMax: number; log: Log; rest: Rest },
): Reception {
  let begun = false;

  async function remove(): Promise<void> {
    try {
      await store.files.remove(coming.id);
      await store.batches.removeFile(coming.id);
    } catch (error) {
      log.warn(
        { err: error, file: coming.id },
        'a file that broke off could not be removed; that is left to the workers',
      );
    }
  }

  return {
    async take(filename, bytes) {
      const file = { ...coming, filename, purpose: 'batch', bytes: 0, lines: 0, tokens: 0 } as const;
      begun = true;
      if (!(await store.batches.insertFile({ ...file, state: 'writing' }))) throw new Error('a new file has an old id');
      const counting = createCountLines({ linesMax: requestsMax });
      let count: LineCount = { lines: 0, tokens: 0 };
      async function* counted() {
        yield* countedPieces(bytes, counting, rest);
        count = counting.end();
      }
      const written = await store.files.write(coming.id, counted());
      return { ...file, ...count, bytes: written, state: 'ready' };
    },
    async keep(file) {
      const { state, bytes, lines, tokens } = file;
      const kept = await store.batches.changeFile(coming.id, 'writing', { state, bytes, lines, tokens });
      if (!kept) throw temporarilyUnavailable(new Error('a file was removed before it was whole'));
      return file;
    },
    async discard() {
      if (begun) await within(discardMs, remove());
    },
  };
}

async function* countedPieces(
  bytes: AsyncIterable<Uint8Array>,
  { push }: CountLines,
  rest: Rest,
): AsyncGenerator<Uint8Array> {
  let workMs = 0;
  for await (const piece of bytes) {
    // A piece can be tens of thousands of lines, and end one that takes 0.2 s.
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
