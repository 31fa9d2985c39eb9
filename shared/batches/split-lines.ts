import { nextTurn } from '../concurrency/in-turn.ts';
import type { FileStore } from '../store/file-store.ts';
import { type Batch, lineBytesMax } from './batch.ts';

/**
 * One line of a file: its number (from 1), its offset in the file, and its bytes without the line feed. `bytes` is undefined for a line
 * that is too long. The bytes may share memory with the chunk that they came in.
 */
export type FileLine = { number: number; from: number; bytes: Buffer | undefined };

type Options = {
  /** The limit of a line, without its line feed. */
  bytesMax: number;
  /** The line that the first chunk begins with, and its offset in the file; the first line by default. */
  start?: { line: number; byte: number };
};

const lineFeed = 0x0a;
const byteOrderMark = Buffer.from('\ufeff');
const [tab, carriageReturn, space, firstNonAscii] = [0x09, 0x0d, 0x20, 0x80];
const firstHeldBytes = 4_096;

/**
 * Splits a file into lines, for any chunks. It buffers at most the beginning of one line, and nothing of a line that is too long: such a
 * line is reported once, as soon as its length is known, and the next line starts after its line feed. A byte order mark at the start of
 * the file and lines of white space are skipped; they count in the numbers of the lines after them (contract.md#f2-input-files).
 */
export function createLineSplitter({ bytesMax, start = { line: 1, byte: 0 } }: Options) {
  let number = start.line;
  let from = start.byte;
  let position = start.byte;
  let tooLong = false;
  const held = createHeldBytes(bytesMax);

  /** Returns the lines that end in this chunk, and a line that became too long in it. */
  function push(chunk: Uint8Array): FileLine[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const lines: FileLine[] = [];
    let begin = 0;
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, begin)) {
      take(bytes.subarray(begin, end), lines, true);
      position += end + 1 - begin;
      begin = end + 1;
      next();
    }
    take(bytes.subarray(begin), lines, false);
    position += bytes.length - begin;
    return lines;
  }

  /** Adds a part of the current line, which may be its last. */
  function take(part: Buffer, lines: FileLine[], isLast: boolean): void {
    if (tooLong) return;
    if (held.length() + part.length > bytesMax) {
      tooLong = true;
      held.clear();
      lines.push({ number, from, bytes: undefined });
    } else if (!isLast) {
      held.add(part);
    } else if (held.length() === 0) {
      emit(part, lines);
    } else {
      held.add(part);
      emit(held.bytes(), lines);
    }
  }

  function emit(whole: Buffer, lines: FileLine[]): void {
    const isMarked = from === 0 && whole.subarray(0, byteOrderMark.length).equals(byteOrderMark);
    const skipped = isMarked ? byteOrderMark.length : 0;
    const bytes = whole.subarray(skipped);
    if (!isBlank(bytes)) lines.push({ number, from: from + skipped, bytes });
  }

  function next(): void {
    number++;
    from = position;
    tooLong = false;
    held.clear();
  }

  return {
    push,
    /** How many lines have ended, with those that are skipped. */
    lines: (): number => number - start.line,
    /** Returns the rest after the last line feed, if there is any. */
    end(): FileLine[] {
      const lines: FileLine[] = [];
      if (!tooLong) emit(held.bytes(), lines);
      return lines;
    },
  };
}

/** Whether a line is white space. Most lines are decided by their first byte. */
function isBlank(bytes: Buffer): boolean {
  const first = bytes.find((byte) => byte !== space && (byte < tab || byte > carriageReturn));
  return first === undefined || (first >= firstNonAscii && bytes.toString().trim() === '');
}

/** Copies parts into one buffer: a view of a few bytes would keep its complete chunk in memory. */
function createHeldBytes(bytesMax: number) {
  let buffer = Buffer.alloc(0);
  let length = 0;

  return {
    length: () => length,
    bytes: () => buffer.subarray(0, length),
    add(part: Buffer): void {
      const bytes = length + part.length;
      if (bytes > buffer.length) {
        const larger = Buffer.alloc(Math.min(bytesMax, Math.max(firstHeldBytes, buffer.length * 2, bytes)));
        buffer.copy(larger, 0, 0, length);
        buffer = larger;
      }
      part.copy(buffer, length);
      length = bytes;
    },
    clear(): void {
      buffer = Buffer.alloc(0);
      length = 0;
    },
  };
}

/** Short, so that a reader that waits for hours holds little memory, and nothing in the store. */
const blockBytes = 131_072;
/** After this time the event loop continues. A line can take 50 ms to parse. */
const busyMs = 10;

/** The file of a batch does not exist any more. */
export class FileGone extends Error {
  override readonly name = 'FileGone';
}

/** Reads the lines of a file from a position on, in short blocks, when they are needed. Fails with `FileGone`, and as the store does. */
export async function* readLines(files: Pick<FileStore, 'read'>, id: string, start: Batch['position']) {
  const splitter = createLineSplitter({ bytesMax: lineBytesMax, start });
  let position = start.byte;
  let turnSince = performance.now();
  async function* inTurns(batch: readonly FileLine[]) {
    for (const line of batch) {
      if (performance.now() - turnSince > busyMs) {
        await nextTurn();
        turnSince = performance.now();
      }
      yield line;
    }
  }
  while (true) {
    const block = await files.read(id, position, blockBytes);
    if (block === undefined) throw new FileGone(`the file ${id} does not exist`);
    yield* inTurns(splitter.push(block));
    position += block.byteLength;
    if (block.byteLength < blockBytes) break;
  }
  yield* inTurns(splitter.end());
}
