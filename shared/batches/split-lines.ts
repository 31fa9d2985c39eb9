/**
 * One line of a file: its number, from 1, where it begins in the file, and its bytes without the line feed; `bytes` is undefined
 * for one that is longer than may be. They may share memory with the chunk that they came in.
 */
export type FileLine = { number: number; from: number; bytes: Buffer | undefined };

export interface LineSplitter {
  /** The lines that end in this chunk, and one that has become too long in it. */
  push(chunk: Uint8Array): FileLine[];
  /** What stands after the last line feed, if anything does. */
  end(): FileLine[];
}

type Options = {
  /** Of a line, its line feed aside. */
  bytesMax: number;
  /** The line that the first chunk begins with, and where that is in the file; left out, the first one. */
  start?: { line: number; byte: number };
};

const lineFeed = 0x0a;
const firstHeldBytes = 4_096;

/**
 * Cuts a file into lines, however its bytes come. It holds the beginning of one line at most, and of one that is too long
 * nothing: that is told as soon as it is known, once, and the next line is what follows its line feed. An empty line is one,
 * and a carriage return is a byte like any other.
 */
export function createLineSplitter({ bytesMax, start = { line: 1, byte: 0 } }: Options): LineSplitter {
  let number = start.line;
  let from = start.byte;
  let position = start.byte;
  let tooLong = false;
  // Copied, and into one piece: a view of a few bytes would keep all of its chunk in memory.
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

  /** A part of the present line, and perhaps the last one. */
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
