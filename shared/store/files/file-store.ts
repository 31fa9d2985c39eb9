/**
 * The bytes of files, beside the store that knows whose they are. A file is written once, and is there whole or not at all.
 * Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, when the store cannot be reached.
 */
export interface FileStore {
  /**
   * Writes a file as it comes, never whole in memory, where nobody finds it; it has its name only once it is whole. Where that
   * fails, also because it was removed meanwhile, nothing is left that `remove` does not take away, and no reader has seen any
   * of it; what `chunks` throws is thrown as it is. Of two who write one file at once the later one stands. Resolves with its
   * bytes. A name that is no file's (`isFileId`) is an error of the caller, here alone: elsewhere there is no such file.
   */
  write(id: string, chunks: AsyncIterable<Uint8Array>): Promise<number>;
  /** At most so many bytes of it from there on; fewer only at its end. Undefined where there is no such file. */
  read(id: string, from: number, bytesMax: number): Promise<Uint8Array | undefined>;
  /** The file, and whatever writings of it have left behind that broke off; idempotent. */
  remove(id: string): Promise<void>;
}
