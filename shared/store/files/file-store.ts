/**
 * The bytes of files. The store has the owners of the files. A file is written once, and exists completely or not at all
 * (contract.md#r8-files). Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, if the store is unreachable.
 */
export interface FileStore {
  /**
   * Writes a file as a stream, never completely in memory. The file is not readable until it is complete; only then it gets its name. If
   * the write fails (also because the file was removed in the meantime), no reader has seen any of it, and `remove` deletes all that is
   * left. An error of `chunks` is thrown unchanged. If two writes of one file run at once, the later one wins. Returns the number of bytes.
   * For an id that is not a file id (`isFileId`) it throws; the other methods treat it as a missing file.
   */
  write(id: string, chunks: AsyncIterable<Uint8Array>): Promise<number>;
  /** Reads at most `bytesMax` bytes from `from` on; fewer only at the end of the file. Returns undefined if there is no such file. */
  read(id: string, from: number, bytesMax: number): Promise<Uint8Array | undefined>;
  /** Removes the file, and all that aborted writes of it have left. Idempotent. */
  remove(id: string): Promise<void>;
}

/** `file-` and 26 characters of Crockford's base 32, as in a ULID: they have no special meaning in a path. */
const fileId = /^file-[0-9A-HJKMNP-TV-Z]{26}$/;

export function isFileId(id: string): boolean {
  return fileId.test(id);
}

/**
 * Splits the bytes into blocks of one size; only the last may be smaller. All blocks share one buffer, which is valid until the next block
 * is requested.
 */
export async function* inBlocks(chunks: AsyncIterable<Uint8Array>, blockBytes: number): AsyncGenerator<Uint8Array> {
  const block = Buffer.alloc(blockBytes);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length; ) {
      const part = chunk.subarray(from, from + blockBytes - filled);
      block.set(part, filled);
      filled += part.length;
      from += part.length;
      if (filled < blockBytes) continue;
      yield block;
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
