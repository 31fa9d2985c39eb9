import { ulid } from 'ulid';
import { z } from 'zod';
import type { Batch, StoredFile } from '../../shared/batches/batch.ts';
import { nextBatch } from '../../shared/batches/batch-states.ts';
import { endpoints } from '../../shared/endpoints/routes.ts';
import { ApiError, rateLimitExceeded, validationError } from '../../shared/errors.ts';
import { isObject } from '../../shared/is-object.ts';
import { refuseOutsideKey } from '../../shared/key-scope.ts';
import type { Store } from '../../shared/store/store.ts';
import { parseBody } from '../api/json-body.ts';
import { limitParameter, parseQuery } from '../api/list-query.ts';
import { presentBatch } from '../api/present-batch.ts';
import { presentList } from '../api/present-list.ts';
import { findFile } from '../files/find-file.ts';
import { batchClaim, isAskedFor } from '../idempotency/batch-claim.ts';
import { idempotencyKeyOf } from '../idempotency/idempotency-key.ts';
import { repeatRefused } from '../idempotency/repeat-refused.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../request-state.ts';

type BatchStores = { store: Pick<Store, 'batches'> };

const batchId = /^batch_[0-9A-HJKMNP-TV-Z]{26}$/;
const pairsMax = 16;
/** For one account. A worker holds each unfinished batch in memory and checks it every few seconds, however small it is. */
const unfinishedMax = 100;
const retryAfterMs = 60_000;

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
  output_expires_after: z.never({ error: 'is not supported' }).optional(),
});

export const batchesQuery = z.strictObject({
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(batchId, 'expected the id of a batch')
    .optional()
    .meta({ description: 'The batch before the first one to return: `last_id` of the previous page.' }),
});

/**
 * `POST /v1/batches`: submits a file (contract.md#f1-routes). Workers validate and run its lines. If the account has no such file, the
 * field that names it is invalid. With an idempotency key that was used before, it returns the batch as it is now
 * (contract.md#h1-idempotency-keys).
 */
export function createBatch({ store }: BatchStores): Stage {
  return async function createBatch(ctx) {
    const idempotencyKey = idempotencyKeyOf(ctx.req);
    const body = parseBody(batchBody, stateOf(ctx, 'body'));
    const { account, furtherKey } = stateOf(ctx, 'caller');
    const refusal = refuseOutsideKey(furtherKey, { endpoint: body.endpoint });
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
    if (!isAskedFor(batch, body)) throw repeatRefused('mismatch');
    if (batch.id !== created?.id) ctx.set('idempotent-replayed', 'true');
    ctx.body = presentBatch(batch);
  };

  async function create(ctx: AppContext, body: z.infer<typeof batchBody>, claim?: string): Promise<Batch> {
    const { account, plan, keyId = '' } = stateOf(ctx, 'caller');
    const planFile = stateOf(ctx, 'planFile');
    const file = await findFile(store, { id: body.input_file_id, account });
    if (file === undefined) throw refuseInput('there is no such file');
    if (file.purpose !== 'batch') throw refuseInput('expected a file of the purpose "batch"');
    await requireRoom(file, planFile.plans[plan]?.batchTokensWaiting);
    const now = stateOf(ctx, 'now');
    const batch: Batch = {
      id: `batch_${ulid(now)}`,
      account,
      keyId,
      endpoint: body.endpoint,
      completionWindow: body.completion_window,
      inputFile: file.id,
      inputFilename: file.filename,
      metadata: body.metadata ?? null,
      state: 'validating',
      open: true,
      tokens: file.tokens,
      counts: { total: 0, completed: 0, failed: 0 },
      position: { line: 1, byte: 0 },
      errors: [],
      createdAt: new Date(now),
      expiresAt: new Date(now + planFile.batch.windowS * 1000),
      version: 1,
    };
    await store.batches.insertBatch(batch, claim);
    return batch;
  }

  /** Two concurrent requests may both find room. */
  async function requireRoom({ account, tokens }: StoredFile, tokensMax: number | undefined): Promise<void> {
    const waiting = await store.batches.countUnfinished(account);
    if (waiting.batches >= unfinishedMax) {
      throw noRoom(`The account has ${waiting.batches} unfinished batches, and can have ${unfinishedMax}.`);
    }
    if (tokensMax === undefined || waiting.tokens + tokens <= tokensMax) return;
    throw noRoom(
      `This batch has about ${tokens} tokens, and ${waiting.tokens} are already waiting: the plan has room for ${tokensMax}.`,
    );
  }
}

/** `GET /v1/batches`: the batches of the account, newest first. `after` can be any id, because ids sort by time. */
export function listBatches({ store }: BatchStores): Stage {
  return async function listBatches(ctx) {
    const { limit, after } = parseQuery(batchesQuery, ctx.querystring);
    const page = { limit: limit + 1, after, order: 'desc' } as const;
    const found = await store.batches.listBatches(stateOf(ctx, 'caller').account, page);
    ctx.body = presentList({ found, limit, present: presentBatch });
  };
}

/** `GET /v1/batches/{id}`. */
export function retrieveBatch({ store }: BatchStores): Stage {
  return async function retrieveBatch(ctx) {
    const { id, account } = wantedBatch(ctx);
    ctx.body = presentBatch(requireOwn(await store.batches.findBatch(id), account));
  };
}

/** `POST /v1/batches/{id}/cancel`: changes nothing if the batch is being cancelled; `CONFLICT` if it has ended in any way. */
export function cancelBatch({ store }: BatchStores): Stage {
  return async function cancelBatch(ctx) {
    const { id, account } = wantedBatch(ctx);
    const at = new Date(stateOf(ctx, 'now'));
    const cancelled = await store.batches.changeBatch(id, (found) => cancelling(requireOwn(found, account), at));
    ctx.body = presentBatch(cancelled);
  };
}

/** Cancels a batch, unless it is being cancelled. `CONFLICT` if it has ended. */
export function cancelling(batch: Batch, at: Date): { result: Batch; next?: Batch } {
  if (batch.state === 'cancelling') return { result: batch };
  const next = nextBatch(batch, { type: 'cancel' }, at);
  if (next === undefined) throw new ApiError('CONFLICT', `A batch that is ${batch.state} cannot be cancelled.`);
  return { result: next, next };
}

function noRoom(message: string): ApiError {
  return rateLimitExceeded('batch_limit', message, retryAfterMs);
}

function refuseInput(message: string): ApiError {
  return validationError([{ path: 'input_file_id', message }]);
}

/** A batch of another account is treated as missing. */
function requireOwn(batch: Batch | undefined, account: string): Batch {
  if (batch?.account !== account) throw noSuchBatch();
  return batch;
}

function wantedBatch(ctx: AppContext): { id: string; account: string } {
  const id = pathParameter(ctx, 'batch');
  if (!batchId.test(id)) throw noSuchBatch();
  return { id, account: stateOf(ctx, 'caller').account };
}

export function noSuchBatch(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such batch.');
}
