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
 * `GET /v1/files/{id}/content`: the file as it is, a block at a time. It has its length, and one that can not be read to its end
 * ends with the connection: nobody takes a part for the whole.
 */
export function retrieveFileContent({ store, log }: { store: Pick<Store, 'batches' | 'files'>; log: Log }): Stage {
  return async function retrieveFileContent(ctx) {
    const file = await findFile(store, wantedFile(ctx));
    if (file === undefined) throw noSuchFile();
    // Before there is a status or a header: a store that is away has its own answer, which is no file.
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
        log.warn({ err: error, file: file.id }, 'a file broke off while it was read');
        throw error;
      }
    }
  }

  /** Fails where the file has gone meanwhile, or is shorter than it was. */
  async function readBlock({ id, bytes }: StoredFile, from: number): Promise<Uint8Array> {
    const wanted = Math.min(blockBytes, bytes - from);
    const block = await store.files.read(id, from, wanted);
    if (block === undefined || block.length !== wanted) {
      throw temporarilyUnavailable(new Error('a file has other bytes than its record says'));
    }
    return block;
  }
}
