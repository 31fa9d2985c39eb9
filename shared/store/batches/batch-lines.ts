import { isDeepStrictEqual } from 'node:util';
import type { BatchResult, BatchRetry } from '../../batches/batch.ts';

/** Whether this is the line's next request, or stands already: `number` is one more than that of the latest. */
export function nextRetry(retry: BatchRetry) {
  return (stored: BatchRetry | undefined): { result: boolean; next?: BatchRetry } => {
    const latest = stored?.number ?? 1; // a line's first request is noted nowhere
    if (retry.number === latest + 1) return { result: true, next: retry };
    return { result: isDeepStrictEqual(stored, retry) };
  };
}

/** In their order, at most so many and about so many characters of bodies together, but at least one. */
export function inPieces(results: readonly BatchResult[], { count, characters }: PieceSize): BatchResult[][] {
  const pieces: BatchResult[][] = [];
  let size = 0;
  for (const result of results) {
    const last = pieces.at(-1);
    const length = result.body?.length ?? 0;
    if (last === undefined || last.length === count || size + length > characters) {
      pieces.push([result]);
      size = length;
    } else {
      last.push(result);
      size += length;
    }
  }
  return pieces;
}

export function charactersOf(results: readonly BatchResult[]): number {
  return results.reduce((sum, { body }) => sum + (body?.length ?? 0), 0);
}

type PieceSize = { count: number; characters: number };

/** A page of results ends with the one that brings their bodies to this many characters. */
export const pageCharactersMax = 8_388_608;
