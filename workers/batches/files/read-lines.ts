import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Batch, lineBytesMax } from '../../../shared/batches/batch.ts';
import { createLineSplitter, type FileLine } from '../../../shared/batches/split-lines.ts';
import type { FileStore } from '../../../shared/store/files/file-store.ts';

/** Short, so that a reader who waits for hours holds little and the store nothing. */
const blockBytes = 131_072;
/** After this long the process does something else: a line can take 50 ms to parse. */
const busyMs = 10;

/** The file of a batch is not there any more. */
export class FileGone extends Error {
  override readonly name = 'FileGone';
}

/**
 * The lines of a file from this position on, read in short blocks as they are asked for. Fails with `FileGone`, and as the
 * store does.
 */
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
    if (block === undefined) throw new FileGone(`the file ${id} is not there`);
    yield* inTurns(splitter.push(block));
    position += block.byteLength;
    if (block.byteLength < blockBytes) break;
  }
  yield* inTurns(splitter.end());
}

/** One line whose place is known. */
export async function readLine(
  files: Pick<FileStore, 'read'>,
  id: string,
  { number, from, length }: { number: number; from: number; length: number },
): Promise<FileLine> {
  const bytes = await files.read(id, from, length);
  if (bytes === undefined) throw new FileGone(`the file ${id} is not there`);
  return { number, from, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
}
