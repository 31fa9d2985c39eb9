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
