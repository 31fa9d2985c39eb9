import { Readable } from 'node:stream';
import { z } from 'zod';
import { filePurposes, type StoredFile } from '../../shared/batches/batch.ts';
import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import { isFileId } from '../../shared/store/file-store.ts';
import { removeUnusedFile } from '../../shared/store/records/batch-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { exampleList, limitParameter, listOf, presentList } from '../api/lists.ts';
import { count, keyId, seconds, secondsOf, shownKeyId } from '../api/response-fields.ts';
import { named, type Route, type RouteRequest, route } from '../api/route.ts';
import { fileAccessOf, findFile, noSuchFile, requireChangeable } from '../files/find-file.ts';
import { keptSecondsMin } from '../files/read-form.ts';

const filesMax = 10_000;

const filesQuery = z.strictObject({
  purpose: z.enum(filePurposes).optional(),
  limit: limitParameter({ max: filesMax, usual: filesMax }),
  after: z
    .string()
    .refine(isFileId, 'expected the id of a file')
    .optional()
    .meta({ description: 'The file before the first one to return: `last_id` of the previous page.' }),
  order: z.enum(['asc', 'desc']).default('desc').meta({ description: 'By the time of upload; `desc`: newest first.' }),
});

/** The form that `ingress/files/read-form.ts` reads. */
const fileUpload = named(
  'FileUpload',
  z.strictObject({
    purpose: z.literal('batch'),
    file: z.file().meta({ description: 'JSON lines, one request per line.' }),
    'expires_after[anchor]': z.literal('created_at').optional(),
    'expires_after[seconds]': z
      .int()
      .min(keptSecondsMin)
      .optional()
      .meta({ description: 'How long the file is kept, at most as long as without it. Needs the anchor.' }),
  }),
);

const params = { file: { description: 'The id of a file.', example: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA' } };

const fileSchema = named(
  'File',
  z.strictObject({
    id: z.string(),
    object: z.literal('file'),
    bytes: count,
    created_at: seconds,
    expires_at: seconds,
    filename: z.string(),
    purpose: z.enum(['batch', 'batch_output']),
    status: z.literal('processed'),
    key_id: keyId,
  }),
);

const deletedFileSchema = named(
  'DeletedFile',
  z.strictObject({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) }),
);

const fileListSchema = named('FileList', listOf(fileSchema));

export type File = z.infer<typeof fileSchema>;

const exampleFile = {
  id: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'file',
  bytes: 1024,
  created_at: 1_767_225_600,
  expires_at: 1_769_817_600,
  filename: 'requests.jsonl',
  purpose: 'batch',
  status: 'processed',
  key_id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
} as const;

export const fileRoutes: readonly Route[] = [
  route({
    id: 'uploadFile',
    method: 'POST',
    path: '/v1/files',
    access: 'account',
    tag: 'Files',
    summary: 'Upload the input file of a batch',
    description: `A form with \`purpose\`, which is \`batch\`, and one \`file\` of JSON lines:
\`{"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}\`. \`url\` is the endpoint of the batch, the same in all lines.`,
    body: { schema: fileUpload, form: true },
    answers: { description: 'The file.', schema: fileSchema, example: exampleFile },
    refusals: ['CONFLICT'],
    limits: ['concurrency_limit'],
    usesAccount: true,
    async handle({ ctx, caller, now, planFile }, { http: { uploadFile } }) {
      return presentFile(await uploadFile(ctx, { caller, now, limits: planFile.batch }));
    },
  }),
  /** The files that the caller may read, newest first by default. `after` can be any id, because ids sort by time. */
  route({
    id: 'listFiles',
    method: 'GET',
    path: '/v1/files',
    access: 'account',
    tag: 'Files',
    summary: 'List the files of the account',
    query: filesQuery,
    answers: {
      description: 'A page of files.',
      schema: fileListSchema,
      example: exampleList(exampleFile),
    },
    inTurns: true,
    async handle({ caller, query: { limit, ...query } }, { store }) {
      const { account, readsOf } = fileAccessOf(caller);
      const found = await store.batches.listFiles(account, { ...query, limit: limit + 1, keyIds: readsOf });
      return presentList({ found, limit, present: presentFile });
    },
  }),
  route({
    id: 'retrieveFile',
    method: 'GET',
    path: '/v1/files/:file',
    access: 'account',
    tag: 'Files',
    summary: 'Retrieve a file',
    answers: { description: 'The file.', schema: fileSchema, example: exampleFile },
    refusals: ['NOT_FOUND'],
    params,
    inTurns: true,
    async handle(request, { store }) {
      return presentFile(await requireFile(request, store));
    },
  }),
  /**
   * Streams the unchanged file, block by block. The response has a Content-Length, and if the file cannot be
   * read completely, the connection is closed. So no client takes a part for the complete file.
   */
  route({
    id: 'retrieveFileContent',
    method: 'GET',
    path: '/v1/files/:file/content',
    access: 'account',
    tag: 'Files',
    summary: 'Download a file',
    description: 'If a download cannot continue, the connection closes before `Content-Length` bytes are sent.',
    answers: { description: 'Its bytes.', schema: 'bytes' },
    refusals: ['NOT_FOUND'],
    params,
    noStore: true,
    async handle(request, parts) {
      const { ctx } = request;
      const file = await requireFile(request, parts.store);
      // Before the status and headers are set: if the store is unavailable, the response is an error, not a file.
      const first = ctx.method === 'HEAD' ? undefined : await readBlock(file, 0, parts);
      ctx.status = 200;
      ctx.type = 'application/octet-stream';
      ctx.attachment(file.filename);
      if (first !== undefined) ctx.body = Readable.from(blocks(file, first, parts), { objectMode: false });
      ctx.length = file.bytes;
    },
  }),
  /** `CONFLICT` while the file is the input of an unfinished batch. */
  route({
    id: 'deleteFile',
    method: 'DELETE',
    path: '/v1/files/:file',
    access: 'account',
    tag: 'Files',
    summary: 'Delete a file',
    description: '`CONFLICT` while it is the input of a batch that has not ended.',
    answers: {
      description: 'The file is deleted.',
      schema: deletedFileSchema,
      example: { id: exampleFile.id, object: 'file', deleted: true },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params,
    inTurns: true,
    async handle(request, { store }) {
      const file = await requireFile(request, store);
      requireChangeable(fileAccessOf(request.caller), file);
      const { id } = file;
      const removed = await removeUnusedFile(store, id);
      if (removed === 'in use') throw inUse();
      if (removed === 'absent') throw noSuchFile();
      return { id, object: 'file' as const, deleted: true as const };
    },
  }),
];

function inUse(): ApiError {
  return new ApiError('CONFLICT', 'A batch that is not finished has this file as its input.');
}

const blockBytes = 262_144;

type ContentParts = { store: Pick<Store, 'files'>; log: Pick<Log, 'warn'> };

async function* blocks(file: StoredFile, first: Uint8Array, parts: ContentParts): AsyncGenerator<Uint8Array> {
  let block = first;
  for (let from = block.length; ; from += block.length) {
    yield block;
    if (from >= file.bytes) return;
    try {
      block = await readBlock(file, from, parts);
    } catch (error) {
      parts.log.warn({ err: error, file: file.id }, 'a file could not be read completely');
      throw error;
    }
  }
}

/** Fails if the file has been deleted meanwhile, or is shorter than before. */
async function readBlock({ id, bytes }: StoredFile, from: number, { store }: ContentParts): Promise<Uint8Array> {
  const wanted = Math.min(blockBytes, bytes - from);
  const block = await store.files.read(id, from, wanted);
  if (block === undefined || block.length !== wanted) {
    throw temporarilyUnavailable(new Error('the size of a file differs from its record'));
  }
  return block;
}

async function requireFile({ caller, params }: FileRequest, store: Pick<Store, 'batches'>): Promise<StoredFile> {
  const file = await findFile(store, { id: params.file, access: fileAccessOf(caller) });
  if (file === undefined) throw noSuchFile();
  return file;
}

type FileRequest = Pick<RouteRequest<'account', '/v1/files/:file'>, 'caller' | 'params'>;

/** OpenAI's file object; times are in seconds. */
function presentFile({ id, bytes, createdAt, expiresAt, filename, purpose, keyId = '' }: StoredFile) {
  return {
    id,
    object: 'file' as const,
    bytes,
    created_at: secondsOf(createdAt),
    expires_at: secondsOf(expiresAt),
    filename,
    purpose,
    status: 'processed' as const,
    key_id: shownKeyId(keyId),
  };
}
