import { lineBytesMax, type StoredFile } from '../../shared/batches/batch.ts';
import { createLineSplitter, type FileLine } from '../../shared/batches/split-lines.ts';
import type { Rest } from '../../shared/concurrency/in-turn.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { estimateTokens } from '../../shared/endpoints/tokens/estimate-tokens.ts';
import { temporarilyUnavailable, validationError } from '../../shared/errors.ts';
import { exceededJsonBound } from '../../shared/json/json-bounds.ts';
import { isObject } from '../../shared/json/json-values.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { claimOf } from './account-room.ts';

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

/** `tokens` is an estimate for all prompts. */
type LineCount = { lines: number; tokens: number };

/** How many lines a file may have for each request. Lines of white space take time in each worker that reads them. */
const allLinesPerLine = 10;

/**
 * Counts the lines of an input file and the tokens of their prompts as the file arrives. Fails with `VALIDATION_ERROR` for a line beyond
 * the limit or too long, which it names, for too many lines of white space, and for an empty file. Other errors of a line are found while
 * its batch is `validating`; here such a line counts as plain text (contract.md#f2-input-files).
 */
export function createCountLines({ linesMax }: { linesMax: number }) {
  const splitter = createLineSplitter({ bytesMax: lineBytesMax });
  const count = { lines: 0, tokens: 0 };

  function take({ number, bytes }: FileLine): void {
    if (++count.lines > linesMax) throw refuse(`line ${number}: a file has at most ${linesMax} lines`);
    if (bytes === undefined) throw refuse(`line ${number}: is longer than ${lineBytesMax} bytes`);
    count.tokens += estimateLine(bytes);
  }

  return {
    push(chunk: Uint8Array): void {
      splitter.push(chunk).forEach(take);
      const allLinesMax = linesMax * allLinesPerLine;
      if (splitter.lines() > allLinesMax) throw refuse(`has more than ${allLinesMax} lines, with those of white space`);
    },
    end(): LineCount {
      splitter.end().forEach(take);
      if (count.lines === 0) throw refuse('is empty');
      return count;
    },
  };
}

type CountLines = ReturnType<typeof createCountLines>;

function refuse(message: string) {
  return validationError([{ path: 'file', message }]);
}

/** A line that is not an object within the bounds of JSON counts as text: its batch will fail. */
function estimateLine(bytes: Buffer): number {
  const text = bytes.toString();
  const line = mayBeObject(text) && exceededJsonBound(bytes) === undefined ? parseLine(text) : undefined;
  const endpoint = endpoints.find(({ path, inBatches }) => inBatches && path === line?.url);
  if (endpoint === undefined || !isObject(line?.body)) return estimateTokens(text);
  return endpoint.request.estimatePrompt(line.body, JSON.stringify(line.body));
}

/** A cheap check before parsing, because all lines of a file can be invalid. */
function mayBeObject(text: string): boolean {
  return /^\s*\{.*\}\s*$/s.test(text);
}

function parseLine(text: string): { url?: unknown; body?: unknown } | undefined {
  try {
    return JSON.parse(text) as { url?: unknown; body?: unknown }; // it is an object, because it is in braces
  } catch {
    return undefined;
  }
}
