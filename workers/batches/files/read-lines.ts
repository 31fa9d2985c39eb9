import type { Batch } from '../../../shared/batches/batch.ts';
import { FileGone, type FileLine, readLines } from '../../../shared/batches/split-lines.ts';
import type { FileStore } from '../../../shared/store/file-store.ts';
import { type BatchRules, parseLine, type ReadLine } from './parse-line.ts';

/** Reads one line by its first byte and length. Fails with `FileGone`, and as the store does. */
export async function readLine(
  files: Pick<FileStore, 'read'>,
  id: string,
  { number, from, length }: { number: number; from: number; length: number },
): Promise<FileLine> {
  const bytes = await files.read(id, from, length);
  if (bytes === undefined) throw new FileGone(`the file ${id} does not exist`);
  return { number, from, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
}

/** A line of the file: its number, its first byte and its length in bytes. */
export type FilePosition = { line: number; from: number; length: number };

/** A line as it was read by the models of one plan file. */
type LineAhead = { place: FilePosition; read: ReadLine; bytes: FileLine['bytes']; models: BatchRules['models'] };

function readAs(line: FileLine, place: FilePosition, rules: BatchRules): LineAhead {
  return { place, read: parseLine(line, rules), bytes: line.bytes, models: rules.models };
}

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
    async peek(): Promise<LineAhead | undefined> {
      while (ahead === undefined && !isAtEnd) {
        const line = await readNext();
        const place = { line: line?.number ?? 0, from: line?.from ?? 0, length: line?.bytes?.length ?? 0 };
        if (line === undefined) isAtEnd = true;
        else if (isToSkip(line.number)) moveBehind(place);
        else ahead = readAs(line, place, rules());
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
