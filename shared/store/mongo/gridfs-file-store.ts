import { addAbortSignal } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { GridFSBucket, type GridFSBucketWriteStream } from 'mongodb';
import { storeUnavailable } from '../adapters/store-errors.ts';
import { isFileId } from '../files/file-ids.ts';
import type { FileStore } from '../files/file-store.ts';
import { inBlocks } from '../files/in-blocks.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { bucketName, createFileVersions, type Version } from './gridfs-versions.ts';

const chunkSizeBytes = 261_120; // GridFS's own default: with its other fields, a document is just below a power of two
const readBytesAtOnce = 16 * chunkSizeBytes;
const readAttemptsMax = 3;

/** Stores files in GridFS, each write of a file under its own id. Every call of the database has its own deadline. */
export function createGridFsFileStore(calls: MongoCalls): FileStore {
  const bucket = new GridFSBucket(calls.database, { bucketName, chunkSizeBytes });
  const versions = createFileVersions(calls);

  async function readRange({ _id, bytes }: Version, from: number, to: number): Promise<Uint8Array> {
    const parts: Buffer[] = [];
    for (let start = from; start < Math.min(to, bytes); start += readBytesAtOnce) {
      const end = Math.min(start + readBytesAtOnce, to, bytes);
      const part = await calls.call((signal) =>
        buffer(addAbortSignal(signal, bucket.openDownloadStream(_id, { start, end }))),
      );
      // If the last chunks are missing, the driver treats that as the end of the file.
      if (part.length !== end - start) throw storeUnavailable(new Error('chunks of the file are missing'));
      parts.push(part);
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  }

  return {
    async write(id, source) {
      if (!isFileId(id)) throw new Error(`not a file id: ${id}`);
      const version = await versions.begin(id);
      const stream = bucket.openUploadStreamWithId(version._id, id);
      const discard = () => versions.discard(version);
      const bytes = await upload(source, stream, { call: calls.call, discard });
      if (!(await versions.publish(version, bytes))) {
        await discard();
        throw storeUnavailable(new Error('the file was removed during its write'));
      }
      await versions.removeOlder(id).catch(() => {}); // otherwise `remove` deletes them
      return bytes;
    },

    async read(id, from, bytesMax) {
      for (let attempt = 1; ; attempt += 1) {
        const version = await versions.findNewest(id);
        if (version === undefined) return undefined;
        try {
          return await readRange(version, from, from + bytesMax);
        } catch (error) {
          // Another version may have replaced it during the read, and its chunks may have been removed.
          const now = await versions.findNewest(id);
          if (attempt === readAttemptsMax || now?._id.equals(version._id)) throw error;
        }
      }
    },

    remove: (id) => versions.removeAll(id),
  };
}

/** Returns the number of bytes. After a failure, calls `discard`, unless a chunk may still be written. */
async function upload(
  source: AsyncIterable<Uint8Array>,
  stream: GridFSBucketWriteStream,
  { call, discard }: Pick<MongoCalls, 'call'> & { discard(): Promise<void> },
): Promise<number> {
  stream.on('error', () => {}); // the caller that waits for the write gets the error
  let bytes = 0;
  let isLost = false;
  const send = async (work: () => Promise<void>) => {
    isLost = true;
    await call(work);
    isLost = false;
  };
  try {
    for await (const block of inBlocks(source, chunkSizeBytes)) {
      await send(() => writeTo(stream, block));
      bytes += block.length;
    }
    await send(() => end(stream));
    return bytes;
  } catch (error) {
    stream.destroy();
    // After a timeout, the call may still write its chunk. Then `remove`, which finds the version, deletes it.
    if (!isLost) await discard().catch(() => {});
    throw error;
  }
}

function writeTo(stream: GridFSBucketWriteStream, block: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(block, (error) => (error ? reject(error) : resolve()));
  });
}

function end(stream: GridFSBucketWriteStream): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.once('error', reject);
    stream.end(resolve);
  });
}
