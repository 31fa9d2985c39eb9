import { nextTurn } from '../concurrency/in-turn.ts';
import type { FileStore } from '../store/file-store.ts';
import { type Batch, lineBytesMax } from './batch.ts';
import { createLineSplitter, type FileLine } from './split-lines.ts';

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
