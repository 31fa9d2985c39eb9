import { isDeepStrictEqual } from 'node:util';
import type { BatchResult, BatchRetry } from '../../batches/batch.ts';

/** Decides whether this is the line's next request (`number` is one more than that of the latest), or is already recorded. */
export function nextRetry(retry: BatchRetry) {
  return (stored: BatchRetry | undefined): { result: boolean; next?: BatchRetry } => {
    const latest = stored?.number ?? 1; // a line's first request is not recorded
    if (retry.number === latest + 1) return { result: true, next: retry };
    return { result: isDeepStrictEqual(stored, retry) };
  };
}

/**
 * Splits results into pieces in order. Each has at most `count` results and about `characters` characters of bodies, but at least one
 * result.
 */
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

/** A page of results ends with the result that brings the total length of the bodies to this many characters. */
export const pageCharactersMax = 8_388_608;
