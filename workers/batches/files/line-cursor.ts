import type { Batch } from '../../../shared/batches/batch.ts';
import type { FileLine } from '../../../shared/batches/split-lines.ts';
import type { FileStore } from '../../../shared/store/files/file-store.ts';
import { type BatchRules, parseLine, type ReadLine } from './parse-line.ts';
import { readLines } from './read-lines.ts';

/** A line of the file: its number, its first byte and its length in bytes. */
type FilePosition = { line: number; from: number; length: number };

/** A position in the file of a batch, and the line at it. */
export function createLineCursor({
  files,
  inputFile,
  start,
  rules,
  isToSkip,
}: {
  files: Pick<FileStore, 'read'>;
  inputFile: string;
  start: Batch['position'];
  rules: () => BatchRules;
  isToSkip: (line: number) => boolean;
}) {
  let lines = readLines(files, inputFile, start);
  let ahead: Awaited<ReturnType<LineCursor['peek']>>;
  let position = start;
  let isAtEnd = false;

  async function readNext(): Promise<FileLine | undefined> {
    try {
      const { value: line } = await lines.next();
      return line ?? undefined;
    } catch (error) {
      // A generator that has failed is over, and would look like the end of the file.
      lines = readLines(files, inputFile, position);
      throw error;
    }
  }

  function moveBehind({ line, from, length }: FilePosition): void {
    ahead = undefined;
    position = { line: line + 1, byte: from + length + 1 };
  }

  return {
    /**
     * Returns the next line that is not to be skipped, or undefined at the end of the file. Reads each line once, even if it is called
     * repeatedly. Fails as the store does; the next call then reads the same line.
     */
    async peek(): Promise<{ place: FilePosition; read: ReadLine } | undefined> {
      while (ahead === undefined && !isAtEnd) {
        const line = await readNext();
        const place = { line: line?.number ?? 0, from: line?.from ?? 0, length: line?.bytes?.length ?? 0 };
        if (line === undefined) isAtEnd = true;
        else if (isToSkip(line.number)) moveBehind(place);
        else ahead = { place, read: parseLine(line, rules()) };
      }
      return ahead;
    },
    /** Moves behind the line that `peek` returned. */
    pass(): void {
      if (ahead !== undefined) moveBehind(ahead.place);
    },
    position: (): Batch['position'] => position,
    isAtEnd: (): boolean => isAtEnd,
    async close(): Promise<void> {
      await lines.return(undefined);
    },
  };
}

export type LineCursor = ReturnType<typeof createLineCursor>;
