import { Readable } from 'node:stream';
import type { StoredFile } from '../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Store } from '../../shared/store/store.ts';
import { findFile, noSuchFile } from '../files/find-file.ts';
import type { Stage } from '../request-state.ts';
import { wantedFile } from './files.ts';

const blockBytes = 262_144;

/**
 * `GET /v1/files/{id}/content`: streams the unchanged file, block by block. The response has a Content-Length, and if the file cannot be
 * read completely, the connection is closed. So no client takes a part for the complete file.
 */
export function retrieveFileContent({ store, log }: { store: Pick<Store, 'batches' | 'files'>; log: Log }): Stage {
  return async function retrieveFileContent(ctx) {
    const file = await findFile(store, wantedFile(ctx));
    if (file === undefined) throw noSuchFile();
    // Before the status and headers are set: if the store is unavailable, the response is an error, not a file.
    const first = ctx.method === 'HEAD' ? undefined : await readBlock(file, 0);
    ctx.status = 200;
    ctx.type = 'application/octet-stream';
    ctx.attachment(file.filename);
    if (first !== undefined) ctx.body = Readable.from(blocks(file, first), { objectMode: false });
    ctx.length = file.bytes;
  };

  async function* blocks(file: StoredFile, first: Uint8Array): AsyncGenerator<Uint8Array> {
    let block = first;
    for (let from = block.length; ; from += block.length) {
      yield block;
      if (from >= file.bytes) return;
      try {
        block = await readBlock(file, from);
      } catch (error) {
        log.warn({ err: error, file: file.id }, 'a file could not be read completely');
        throw error;
      }
    }
  }

  /** Fails if the file has been deleted meanwhile, or is shorter than before. */
  async function readBlock({ id, bytes }: StoredFile, from: number): Promise<Uint8Array> {
    const wanted = Math.min(blockBytes, bytes - from);
    const block = await store.files.read(id, from, wanted);
    if (block === undefined || block.length !== wanted) {
      throw temporarilyUnavailable(new Error('the size of a file differs from its record'));
    }
    return block;
  }
}
