import { ulid } from 'ulid';
import { z } from 'zod';
import type { Batch, StoredFile } from '../../shared/batches/batch.ts';
import { nextBatch } from '../../shared/batches/batch-states.ts';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { ApiError, validationError } from '../../shared/errors.ts';
import { isObject } from '../../shared/json/json-values.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import { refuseOutsideKey } from '../../shared/store/records/key.ts';
import { exampleList, limitParameter, presentList } from '../api/lists.ts';
import { named, type Route, type RouteRequest, route } from '../api/route.ts';
import type { AppParts } from '../app-parts.ts';
import { type FileAccess, fileAccessOf, findFile, mayRead, requireChangeable } from '../files/find-file.ts';
import { daySeconds, keptSecondsMin } from '../files/read-form.ts';
import { batchClaim, idempotencyKeyOf, isAskedFor, repeatRefused } from '../middleware/idempotency.ts';
import { cancelOne } from './keys.ts';
import { batchListSchema, batchSchema, exampleBatch, presentBatch } from './present-batch.ts';

const batchId = /^batch_[0-9A-HJKMNP-TV-Z]{26}$/;

export const batchParameter = { description: 'The id of a batch.', example: exampleBatch.id };

export const batchParams = { batch: { ...batchParameter, pattern: batchId, missing: noSuchBatch } };

export const batchesQuery = z.strictObject({
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(batchId, 'expected the id of a batch')
    .optional()
    .meta({ description: 'The batch before the first one to return: `last_id` of the previous page.' }),
});

const pairsMax = 16;

/** Not every store can keep other names. */
const metadataKey = z.string().regex(/^[^\p{Cc}\p{Cs}]{1,64}$/u, 'expected 1 to 64 characters');

const pairs = z
  .record(metadataKey, z.string().max(512))
  .refine((metadata) => Object.keys(metadata).length <= pairsMax, `expected at most ${pairsMax} pairs`);

/** `z.record` silently drops the key `__proto__`. */
const isPrototypeSet = (value: unknown) => isObject(value) && Object.hasOwn(value, '__proto__');

const metadata = z
  .unknown()
  .refine((value) => !isPrototypeSet(value), '__proto__ is not allowed as a name')
  .pipe(pairs)
  .meta({
    description: `At most ${pairsMax} pairs; a name has 1 to 64 characters, a value at most 512.`,
    documentedAs: z.record(metadataKey, z.string().max(512)).meta({ maxProperties: pairsMax }),
  });

const batchEndpoints = endpoints.filter(({ inBatches }) => inBatches).map(({ path }) => path);

export const batchBody = named(
  'NewBatch',
  z.strictObject({
    input_file_id: z.string().meta({ description: 'A file of the purpose `batch`.' }),
    endpoint: z.enum(batchEndpoints),
    completion_window: z.literal('24h'),
    metadata: metadata.nullish(),
    output_expires_after: z
      .strictObject({ anchor: z.literal('created_at'), seconds: z.int().min(keptSecondsMin) })
      .nullish()
      .meta({ description: 'When its files are deleted, counted from their creation.' }),
  }),
);

type NewBatch = {
  caller: Caller;
  file: StoredFile;
  body: Omit<z.infer<typeof batchBody>, 'endpoint'> & { endpoint: string };
  errorFormat: Batch['errorFormat'];
  /** Redis's time, in milliseconds. */
  now: number;
  windowS: number;
};

export const batchRoutes: readonly Route[] = [
  /**
   * Submits a file (contract.md#f1-routes). Workers validate and run its lines. If the caller may read no such file, the
   * field that names it is invalid. With an idempotency key that was used before, it returns the batch as it is now
   * (contract.md#h1-idempotency-keys).
   */
  route({
    id: 'createBatch',
    method: 'POST',
    path: '/v1/batches',
    access: 'account',
    tag: 'Batches',
    summary: 'Create a batch',
    description:
      'Its lines run within 24 hours, next to direct requests. They are all for its `endpoint`. Errors in the file are found while the batch is `validating`. `PAYLOAD_TOO_LARGE` if the account has no room for its results, `CONFLICT` if it has too many files.',
    body: {
      schema: batchBody,
      example: {
        input_file_id: exampleBatch.input_file_id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      },
    },
    answers: {
      description: 'The batch.',
      schema: batchSchema,
      headers: ['idempotent-replayed'],
      example: {
        ...exampleBatch,
        model: null,
        status: 'validating',
        progress: null,
        in_progress_at: null,
        request_counts: { total: 0, completed: 0, failed: 0 },
      },
    },
    refusals: ['CONFLICT', 'IDEMPOTENCY_MISMATCH'],
    limits: ['batch_limit'],
    repeatable: true,
    usesAccount: true,
    inTurns: true,
    async handle(request, parts) {
      const { caller, body } = request;
      const refusal = refuseOutsideKey(caller.keyScope, { endpoint: body.endpoint });
      if (refusal !== undefined) throw refusal;
      const batch = await createOnce(request, parts, {
        create: (claim) => create(request, parts, claim),
        isAskedFor: (batch) => isAskedFor(batch, body),
      });
      return presentBatch(batch, request);
    },
  }),
  /** The batches that the caller may read, newest first. `after` can be any id, because ids sort by time. */
  route({
    id: 'listBatches',
    method: 'GET',
    path: '/v1/batches',
    access: 'account',
    tag: 'Batches',
    summary: "List the account's batches",
    description: 'Newest first.',
    query: batchesQuery,
    answers: {
      description: 'A page of batches.',
      schema: batchListSchema,
      example: exampleList(exampleBatch),
    },
    inTurns: true,
    async handle(request, { store }) {
      const { limit, after } = request.query;
      const { account, readsOf } = fileAccessOf(request.caller);
      const page = { limit: limit + 1, after, order: 'desc', keyIds: readsOf } as const;
      const found = await store.batches.listBatches(account, page);
      return presentList({ found, limit, present: (batch) => presentBatch(batch, request) });
    },
  }),
  route({
    id: 'retrieveBatch',
    method: 'GET',
    path: '/v1/batches/:batch',
    access: 'account',
    tag: 'Batches',
    summary: 'Retrieve a batch',
    answers: { description: 'The batch.', schema: batchSchema, example: exampleBatch },
    refusals: ['NOT_FOUND'],
    params: batchParams,
    inTurns: true,
    async handle(request, { store }) {
      const found = await store.batches.findBatch(request.params.batch);
      return presentBatch(requireReadable(found, fileAccessOf(request.caller)), request);
    },
  }),
  /** Changes nothing if the batch is being cancelled; `CONFLICT` if it has ended in any way. */
  route({
    id: 'cancelBatch',
    method: 'POST',
    path: '/v1/batches/:batch/cancel',
    access: 'account',
    tag: 'Batches',
    summary: 'Cancel a batch',
    description: 'A repeated call changes nothing; `CONFLICT` after the batch has ended.',
    answers: {
      description: 'The batch, usually `cancelling`.',
      schema: batchSchema,
      example: { ...exampleBatch, status: 'cancelling', cancelling_at: 1_767_225_700 },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params: batchParams,
    inTurns: true,
    async handle(request, { store }) {
      const { caller, params, at } = request;
      const access = fileAccessOf(caller);
      const cancelled = await store.batches.changeBatch(params.batch, (found) => {
        const batch = requireReadable(found, access);
        requireChangeable(access, batch);
        return cancelling(batch, at);
      });
      return presentBatch(cancelled, request);
    },
  }),
];

/** Cancels a batch, unless it is being cancelled. `CONFLICT` if it has ended. */
export function cancelling(batch: Batch, at: Date): { result: Batch; next?: Batch } {
  if (batch.state === 'cancelling') return { result: batch };
  const next = nextBatch(batch, { type: 'cancel' }, at);
  if (next === undefined) throw new ApiError('CONFLICT', `A batch that is ${batch.state} cannot be cancelled.`);
  return { result: next, next };
}

/** A batch that the caller may not read is treated as missing. */
export function requireReadable(batch: Batch | undefined, access: FileAccess): Batch {
  if (batch === undefined || !mayRead(access, batch)) throw noSuchBatch();
  return batch;
}

export function noSuchBatch(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such batch.');
}

type Creation = RouteRequest<'account', '/v1/batches', undefined, typeof batchBody>;

type CreationRequest = Pick<RouteRequest<'account'>, 'ctx' | 'caller' | 'planFile'>;
type BatchParts = Pick<AppParts, 'store' | 'queue'>;

/** Creates a batch, once for each idempotency key (contract.md#h1-idempotency-keys). `claim` is undefined without a key. */
export async function createOnce(
  { ctx, caller }: CreationRequest,
  { store }: BatchParts,
  asked: { create: (claim: string | undefined) => Promise<Batch>; isAskedFor: (batch: Batch) => boolean },
): Promise<Batch> {
  const idempotencyKey = idempotencyKeyOf(ctx.req);
  if (idempotencyKey === undefined) return asked.create(undefined);
  const claim = batchClaim({ account: caller.account, idempotencyKey });
  const earlier = await store.batches.findClaimedBatch(claim);
  const created = earlier === undefined ? await asked.create(claim) : undefined;
  // Of concurrent requests with the same key, one has created the batch.
  const batch = earlier ?? (await store.batches.findClaimedBatch(claim));
  if (batch === undefined) throw new Error('a batch is missing after it was created');
  if (!asked.isAskedFor(batch) || !mayRead(fileAccessOf(caller), batch)) throw repeatRefused('mismatch');
  if (batch.id !== created?.id) ctx.set('idempotent-replayed', 'true');
  return batch;
}

/** Inserts a new batch, if its account has room. It is cancelled if its key was revoked meanwhile. */
export async function insertNew(
  { caller, planFile: { plans, batch: limits } }: CreationRequest,
  { store, queue: { insertWithRoom, requestsToEnd } }: BatchParts,
  { batch, lines, claim }: { batch: Batch; lines: number; claim: string | undefined },
): Promise<Batch> {
  const tokensMax = plans[caller.plan]?.batchTokensWaiting;
  await insertWithRoom({ batch, lines, limits: { ...limits, tokensMax }, claim });
  if (batch.keyId === '' || !(await requestsToEnd.has(batch.keyId))) return batch;
  // The key was revoked with its requests, which may have listed its batches before this one was inserted.
  await cancelOne(store, batch.id, batch.createdAt);
  return (await store.batches.findBatch(batch.id)) ?? batch;
}

async function create(request: Creation, parts: BatchParts, claim: string | undefined): Promise<Batch> {
  const { ctx, caller, body, now } = request;
  const { batch: limits } = request.planFile;
  const file = await findFile(parts.store, { id: body.input_file_id, access: fileAccessOf(caller) });
  if (file === undefined) throw refuseInput('there is no such file');
  if (file.purpose !== 'batch') throw refuseInput('expected a file of the purpose "batch"');
  const outputSecondsMax = limits.filesKeptDays * daySeconds;
  if ((body.output_expires_after?.seconds ?? 0) > outputSecondsMax) {
    const message = `expected ${keptSecondsMin} to ${outputSecondsMax} seconds`;
    throw validationError([{ path: 'output_expires_after.seconds', message }]);
  }
  const batch = newBatch({ caller, file, body, errorFormat: errorFormatOf(ctx), now, windowS: limits.windowS });
  return insertNew(request, parts, { batch, lines: file.lines, claim });
}

/** As at the base URL of the request. */
export function errorFormatOf({ state }: RouteRequest<'account'>['ctx']): Batch['errorFormat'] {
  return state.errorFormat === undefined ? 'flat' : 'nested';
}

export function newBatch({ caller: { account, keyId = '' }, file, body, errorFormat, now, windowS }: NewBatch): Batch {
  const outputSeconds = body.output_expires_after?.seconds;
  return {
    id: `batch_${ulid(now)}`,
    account,
    keyId,
    endpoint: body.endpoint,
    completionWindow: body.completion_window,
    inputFile: file.id,
    inputFilename: file.filename,
    metadata: body.metadata ?? null,
    errorFormat,
    ...(outputSeconds !== undefined && { outputSeconds }),
    state: 'validating',
    open: true,
    tokens: file.tokens,
    counts: { total: 0, completed: 0, failed: 0 },
    position: { line: 1, byte: 0 },
    errors: [],
    createdAt: new Date(now),
    expiresAt: new Date(now + windowS * 1000),
    version: 1,
  };
}

function refuseInput(message: string): ApiError {
  return validationError([{ path: 'input_file_id', message }]);
}
