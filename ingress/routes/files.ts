import { z } from 'zod';
import { filePurposes } from '../../shared/batches/batch.ts';
import { ApiError } from '../../shared/errors.ts';
import { removeUnusedFile } from '../../shared/store/batches/file-records.ts';
import { isFileId } from '../../shared/store/files/file-store.ts';
import type { Store } from '../../shared/store/store.ts';
import { limitParameter, parseQuery } from '../api/list-query.ts';
import { presentFile } from '../api/present-file.ts';
import { presentList } from '../api/present-list.ts';
import { type FileAccess, fileAccessOf, requireChangeable } from '../files/file-access.ts';
import { findFile, noSuchFile } from '../files/find-file.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../request-state.ts';

type FileStores = { store: Pick<Store, 'batches' | 'files'> };

const filesMax = 10_000;

export const filesQuery = z.strictObject({
  purpose: z.enum(filePurposes).optional(),
  limit: limitParameter({ max: filesMax, usual: filesMax }),
  after: z
    .string()
    .refine(isFileId, 'expected the id of a file')
    .optional()
    .meta({ description: 'The file before the first one to return: `last_id` of the previous page.' }),
  order: z.enum(['asc', 'desc']).default('desc').meta({ description: 'By the time of upload; `desc`: newest first.' }),
});

/** `GET /v1/files`: the files that the caller may read, newest first by default. `after` can be any id, because ids sort by time. */
export function listFiles({ store }: FileStores): Stage {
  return async function listFiles(ctx) {
    const { limit, ...query } = parseQuery(filesQuery, ctx.querystring);
    const { account, readsOf } = fileAccessOf(stateOf(ctx, 'caller'));
    const found = await store.batches.listFiles(account, { ...query, limit: limit + 1, keyIds: readsOf });
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

/** `DELETE /v1/files/{id}`: `CONFLICT` while the file is the input of an unfinished batch. */
export function deleteFile({ store }: FileStores): Stage {
  return async function deleteFile(ctx) {
    const wanted = wantedFile(ctx);
    const file = await findFile(store, wanted);
    if (file === undefined) throw noSuchFile();
    requireChangeable(wanted.access, file);
    const { id } = file;
    const removed = await removeUnusedFile(store, id);
    if (removed === 'in use') throw inUse();
    if (removed === 'absent') throw noSuchFile();
    ctx.body = { id, object: 'file', deleted: true };
  };
}

function inUse(): ApiError {
  return new ApiError('CONFLICT', 'A batch that is not finished has this file as its input.');
}

export function wantedFile(ctx: AppContext): { id: string; access: FileAccess } {
  return { id: pathParameter(ctx, 'file'), access: fileAccessOf(stateOf(ctx, 'caller')) };
}
