import { z } from 'zod';
import { ApiError } from '../../shared/errors.ts';
import { isFileId } from '../../shared/store/files/file-ids.ts';
import type { Store } from '../../shared/store/store.ts';
import { limitParameter, parseQuery } from '../api/list-query.ts';
import { presentFile } from '../api/present-file.ts';
import { presentList } from '../api/present-list.ts';
import { findFile, noSuchFile } from '../files/find-file.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../request-state.ts';

type FileStores = { store: Pick<Store, 'batches' | 'files'> };

const filesMax = 10_000;

export const filesQuery = z.strictObject({
  purpose: z.enum(['batch', 'batch_output']).optional(),
  limit: limitParameter({ max: filesMax, usual: filesMax }),
  after: z
    .string()
    .refine(isFileId, 'expected the id of a file')
    .optional()
    .meta({ description: 'The file before the first one to return: `last_id` of the previous page.' }),
  order: z.enum(['asc', 'desc']).default('desc').meta({ description: 'By the time of upload; `desc`: newest first.' }),
});

/** `GET /v1/files`: the files of the account, newest first by default. `after` can be any id, because ids sort by time. */
export function listFiles({ store }: FileStores): Stage {
  return async function listFiles(ctx) {
    const { limit, ...query } = parseQuery(filesQuery, ctx.querystring);
    const found = await store.batches.listFiles(stateOf(ctx, 'caller').account, { ...query, limit: limit + 1 });
    ctx.body = presentList({ found, limit, present: presentFile });
  };
}

/** `GET /v1/files/{id}`. */
export function retrieveFile({ store }: FileStores): Stage {
  return async function retrieveFile(ctx) {
    const file = await findFile(store, wantedFile(ctx));
    if (file === undefined) throw noSuchFile();
    ctx.body = presentFile(file);
  };
}

/**
 * `DELETE /v1/files/{id}`: `CONFLICT` while the file is the input of an unfinished batch. The file is marked before this check: a batch
 * submitted later fails its validation because the file is gone, and no batch loses its file while it runs. The check also runs before the
 * mark, so that a file in use is usually not marked at all. A marked file is removed, by the workers' sweep if necessary.
 */
export function deleteFile({ store }: FileStores): Stage {
  return async function deleteFile(ctx) {
    const file = await findFile(store, wantedFile(ctx));
    if (file === undefined) throw noSuchFile();
    const { id } = file;
    if (await store.batches.isInputOfUnfinished(id)) throw inUse();
    if (!(await store.batches.changeFile(id, 'ready', { state: 'deleting' }))) throw noSuchFile();
    if (await store.batches.isInputOfUnfinished(id)) {
      await store.batches.changeFile(id, 'deleting', { state: 'ready' });
      throw inUse();
    }
    await store.files.remove(id);
    await store.batches.removeFile(id);
    ctx.body = { id, object: 'file', deleted: true };
  };
}

function inUse(): ApiError {
  return new ApiError('CONFLICT', 'A batch that is not finished has this file as its input.');
}

export function wantedFile(ctx: AppContext): { id: string; account: string } {
  return { id: pathParameter(ctx, 'file'), account: stateOf(ctx, 'caller').account };
}
