import type { FileStore } from '../../shared/store/file-store.ts';

/** Files in memory that can only be read. `fail` makes the next read fail. `onRead` is called for each read. */
export function memoryFiles(files: Readonly<Record<string, string | Uint8Array>>, onRead: () => void = () => {}) {
  const contents = new Map(Object.entries(files).map(([id, file]) => [id, Buffer.from(file)]));
  const failures: Error[] = [];
  let gone = false;
  const read: FileStore['read'] = async (id, from, length) => {
    onRead();
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return gone ? undefined : contents.get(id)?.subarray(from, from + length);
  };
  const notAsked = () => Promise.reject(new Error('only reading was expected'));
  return {
    files: { read, write: notAsked, remove: notAsked } satisfies FileStore,
    fail: (error: Error) => void failures.push(error),
    remove: () => {
      gone = true;
    },
  };
}
