import { ulid } from 'ulid';
import { z } from 'zod';
import type { Batch, StoredFile } from '../../shared/batches/batch.ts';
import type { Caller } from '../../shared/caller.ts';
import { endpoints } from '../../shared/endpoints/routes.ts';
import { type ApiError, validationError } from '../../shared/errors.ts';
import { isObject } from '../../shared/is-object.ts';
import { refuseOutsideKey } from '../../shared/store/accounts/key.ts';
import type { Store } from '../../shared/store/store.ts';
import { parseBody } from '../api/json-body.ts';
import { presentBatch } from '../api/present-batch.ts';
import { fileAccessOf, mayRead } from '../files/file-access.ts';
import { findFile } from '../files/find-file.ts';
import { daySeconds, keptSecondsMin } from '../files/form-fields.ts';
import { createInsertWithRoom } from '../files/insert-with-room.ts';
import { batchClaim, isAskedFor } from '../idempotency/batch-claim.ts';
import { idempotencyKeyOf } from '../idempotency/idempotency-key.ts';
import { repeatRefused } from '../idempotency/repeat-refused.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';
import type { RequestsToEnd } from '../requests/requests-to-end.ts';
import { cancelOne } from './keys/end-key-requests.ts';

type CreationDeps = { store: Pick<Store, 'batches'>; requestsToEnd: Pick<RequestsToEnd, 'has'> };

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

export const batchBody = z.strictObject({
  input_file_id: z.string().meta({ description: 'A file of the purpose `batch`.' }),
  endpoint: z.enum(batchEndpoints),
  completion_window: z.literal('24h'),
  metadata: metadata.nullish(),
  output_expires_after: z
    .strictObject({ anchor: z.literal('created_at'), seconds: z.int().min(keptSecondsMin) })
    .nullish()
    .meta({ description: 'When its files are deleted, counted from their creation.' }),
});

/**
 * `POST /v1/batches`: submits a file (contract.md#f1-routes). Workers validate and run its lines. If the caller may read no such file, the
 * field that names it is invalid. With an idempotency key that was used before, it returns the batch as it is now
 * (contract.md#h1-idempotency-keys).
 */
export function createBatch({ store, requestsToEnd }: CreationDeps): Stage {
  const insertWithRoom = createInsertWithRoom({ store: store.batches });

  return async function createBatch(ctx) {
    const idempotencyKey = idempotencyKeyOf(ctx.req);
    const body = parseBody(batchBody, stateOf(ctx, 'body'));
    const caller = stateOf(ctx, 'caller');
    const { account } = caller;
    const refusal = refuseOutsideKey(caller.keyScope, { endpoint: body.endpoint });
    if (refusal !== undefined) throw refusal;
    if (idempotencyKey === undefined) {
      ctx.body = presentBatch(await create(ctx, body));
      return;
    }
    const claim = batchClaim({ account, idempotencyKey });
    const earlier = await store.batches.findClaimedBatch(claim);
    const created = earlier === undefined ? await create(ctx, body, claim) : undefined;
    // Of concurrent requests with the same key, one has created the batch.
    const batch = earlier ?? (await store.batches.findClaimedBatch(claim));
    if (batch === undefined) throw new Error('a batch is missing after it was created');
    if (!isAskedFor(batch, body) || !mayRead(fileAccessOf(caller), batch)) throw repeatRefused('mismatch');
    if (batch.id !== created?.id) ctx.set('idempotent-replayed', 'true');
    ctx.body = presentBatch(batch);
  };

  async function create(ctx: AppContext, body: z.infer<typeof batchBody>, claim?: string): Promise<Batch> {
    const caller = stateOf(ctx, 'caller');
    const { plans, batch: limits } = stateOf(ctx, 'planFile');
    const file = await findFile(store, { id: body.input_file_id, access: fileAccessOf(caller) });
    if (file === undefined) throw refuseInput('there is no such file');
    if (file.purpose !== 'batch') throw refuseInput('expected a file of the purpose "batch"');
    const outputSecondsMax = limits.filesKeptDays * daySeconds;
    if ((body.output_expires_after?.seconds ?? 0) > outputSecondsMax) {
      const message = `expected ${keptSecondsMin} to ${outputSecondsMax} seconds`;
      throw validationError([{ path: 'output_expires_after.seconds', message }]);
    }
    const errorFormat = ctx.state.errorFormat === undefined ? 'flat' : 'nested';
    const batch = newBatch({ caller, file, body, errorFormat, now: stateOf(ctx, 'now'), windowS: limits.windowS });
    const tokensMax = plans[caller.plan]?.batchTokensWaiting;
    await insertWithRoom({ batch, lines: file.lines, limits: { ...limits, tokensMax }, claim });
    return batch.keyId !== '' && (await requestsToEnd.has(batch.keyId)) ? endWithKey(batch) : batch;
  }

  /** The key was revoked with its requests, which may have listed its batches before this one was inserted. */
  async function endWithKey(batch: Batch): Promise<Batch> {
    await cancelOne(store, batch.id, batch.createdAt);
    return (await store.batches.findBatch(batch.id)) ?? batch;
  }
}

type NewBatch = {
  caller: Caller;
  file: StoredFile;
  body: z.infer<typeof batchBody>;
  errorFormat: Batch['errorFormat'];
  /** Redis's time, in milliseconds. */
  now: number;
  windowS: number;
};

function newBatch({ caller: { account, keyId = '' }, file, body, errorFormat, now, windowS }: NewBatch): Batch {
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
