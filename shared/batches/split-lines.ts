/**
 * One line of a file: its number (from 1), its offset in the file, and its bytes without the line feed. `bytes` is undefined for a line
 * that is too long. The bytes may share memory with the chunk that they came in.
 */
export type FileLine = { number: number; from: number; bytes: Buffer | undefined };

export interface LineSplitter {
  /** Returns the lines that end in this chunk, and a line that became too long in it. */
  push(chunk: Uint8Array): FileLine[];
  /** Returns the rest after the last line feed, if there is any. */
  end(): FileLine[];
}

type Options = {
  /** The limit of a line, without its line feed. */
  bytesMax: number;
  /** The line that the first chunk begins with, and its offset in the file; the first line by default. */
  start?: { line: number; byte: number };
};

const lineFeed = 0x0a;
const firstHeldBytes = 4_096;

/**
 * Splits a file into lines, for any chunks. It buffers at most the beginning of one line, and nothing of a line that is too long: such a
 * line is reported once, as soon as its length is known, and the next line starts after its line feed. An empty line counts, and a carriage
 * return is an ordinary byte.
 */
export function createLineSplitter({ bytesMax, start = { line: 1, byte: 0 } }: Options): LineSplitter {
  let number = start.line;
  let from = start.byte;
  let position = start.byte;
  let tooLong = false;
  // Copied into one buffer: a view of a few bytes would keep its complete chunk in memory.
  let held = Buffer.alloc(0);
  let heldBytes = 0;

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
    if (heldBytes + part.length > bytesMax) {
      tooLong = true;
      letGo();
      lines.push({ number, from, bytes: undefined });
    } else if (!isLast) {
      hold(part);
    } else if (heldBytes === 0) {
      lines.push({ number, from, bytes: part });
    } else {
      hold(part);
      lines.push({ number, from, bytes: held.subarray(0, heldBytes) });
    }
  }

  function hold(part: Buffer): void {
    const bytes = heldBytes + part.length;
    if (bytes > held.length) {
      const larger = Buffer.alloc(Math.min(bytesMax, Math.max(firstHeldBytes, held.length * 2, bytes)));
      held.copy(larger, 0, 0, heldBytes);
      held = larger;
    }
    part.copy(held, heldBytes);
    heldBytes = bytes;
  }

  function letGo(): void {
    held = Buffer.alloc(0);
    heldBytes = 0;
  }

  function next(): void {
    number++;
    from = position;
    tooLong = false;
    letGo();
  }

  return {
    push,
    end() {
      if (position === from || tooLong) return [];
      return [{ number, from, bytes: held.subarray(0, heldBytes) }];
    },
  };
}
