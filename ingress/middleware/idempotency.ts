import { createHash, createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { Batch } from '../../shared/batches/batch.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { ApiError, temporarilyUnavailable, validationError } from '../../shared/errors.ts';
import { type ClaimOwner, derivedKey, type KeptAnswers } from '../../shared/jobs/idempotency.ts';
import { exactly } from '../../shared/json/exact-json.ts';
import type { Repeat } from '../../shared/limits/admission.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { claimKey } from '../../shared/redis/keys.ts';
import { type Stage, stateOf } from '../request-state.ts';

/**
 * Reads the `Idempotency-Key` of a request, and marks its body, so that a repeat can be told from another request with the same key
 * (contract.md#h1-idempotency-keys). Fails with `VALIDATION_ERROR` for a key of another form.
 */
export function claimIdempotencyKey({ peppers }: { peppers: readonly string[] }): Stage {
  return function claimIdempotencyKey(ctx, next) {
    const idempotencyKey = idempotencyKeyOf(ctx.req);
    if (idempotencyKey === undefined) return next();
    const body = stateOf(ctx, 'body');
    const owner = { account: stateOf(ctx, 'caller').account, idempotencyKey };
    const asked = { endpoint: ctx.path, body: canonicalJson(exactly(body)) };
    const isStream = 'stream' in body.value && body.value.stream === true;
    ctx.state.claim = { idempotencyKey, bodyMarks: bodyMarks(peppers, owner, asked), isStream };
    return next();
  };
}

/**
 * Answers a repeat with the answer of the first request with its idempotency key, byte for byte, and does not call the next stage
 * (contract.md#h1-idempotency-keys). Fails with `IDEMPOTENCY_RESULT_LOST` if the answer was kept with secrets that are no longer in use.
 */
export function answerRepeat({ redis, keptAnswers }: { redis: Redis; keptAnswers: Pick<KeptAnswers, 'open'> }): Stage {
  return async function answerRepeat(ctx, next) {
    const { repeated } = ctx.state;
    if (repeated === undefined) return next();
    const { account } = stateOf(ctx, 'caller');
    const { idempotencyKey } = stateOf(ctx, 'claim');
    const sealed = await redisUnavailable(redis.hgetBuffer(claimKey(account, idempotencyKey), 'answer'));
    if (sealed === null) throw temporarilyUnavailable(new Error('a kept answer expired while it was read'));
    const answer = keptAnswers.open({ account, idempotencyKey }, sealed);
    if (answer === undefined) throw repeatRefused('lost');
    ctx.set({ 'idempotent-replayed': 'true', 'x-svc-original-request-id': repeated.first });
    const { estimate } = endpointAt(stateOf(ctx, 'call').endpoint).answer;
    if (estimate !== undefined && answer.estimated) ctx.set('x-svc-estimated', 'true');
    ctx.set('content-type', 'application/json; charset=utf-8');
    ctx.body = answer.body;
  };
}

const headerName = 'idempotency-key';
const keyPattern = /^[!-~]{1,255}$/;

/** Returns the `Idempotency-Key` of a request, if it has one. Fails with `VALIDATION_ERROR` for a key of another form. */
export function idempotencyKeyOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  const sent = headers[headerName];
  if (sent === undefined) return undefined;
  const key = String(sent);
  if (!keyPattern.test(key)) throw invalidIdempotencyKey('must be 1 to 255 visible ASCII characters');
  return key;
}

function invalidIdempotencyKey(message: string): Error {
  return validationError([{ path: headerName, message }]);
}

/** Returns the claim of the batch that this account creates with this idempotency key. It has only a hash of the key. */
export function batchClaim({ account, idempotencyKey }: ClaimOwner): string {
  return createHash('sha256').update(`${account}\0${idempotencyKey}`).digest('base64url');
}

type NewBatch = {
  input_file_id: string;
  endpoint: string;
  completion_window: string;
  metadata?: Batch['metadata'] | undefined;
  output_expires_after?: { seconds: number } | null | undefined;
};

/** Whether a batch is the one that this body asks for. */
export function isAskedFor(batch: Batch, body: NewBatch): boolean {
  const { input_file_id, endpoint, completion_window, metadata, output_expires_after: expiry } = body;
  return (
    batch.inputFile === input_file_id &&
    batch.endpoint === endpoint &&
    batch.completionWindow === completion_window &&
    batch.outputSeconds === expiry?.seconds &&
    isDeepStrictEqual(batch.metadata, metadata ?? null)
  );
}

/**
 * Returns the marks of a body, one under each pepper in use (base64url). Equal bodies have equal marks; who reads Redis alone cannot tell
 * from a mark whether a guessed body is the one. `body`: its canonical text.
 */
export function bodyMarks(
  peppers: readonly string[],
  owner: ClaimOwner,
  { endpoint, body }: { endpoint: string; body: string },
): [string, ...string[]] {
  const mark = (pepper: string) =>
    createHmac('sha256', derivedKey(pepper, 'body', owner))
      .update(`${endpoint}\0${body}`)
      .digest('base64url');
  const [first, ...others] = peppers;
  if (first === undefined) throw new Error('no pepper to mark a body with');
  return [mark(first), ...others.map(mark)];
}

/** Returns the same text for the same JSON value, whatever the order of its members and its spaces. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(inOrder(value));
}

/** Recursive: JSON is bounded in depth before it is parsed. A list of plain values stays as it is: it may have millions of numbers. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.some(isNested) ? value.map(inOrder) : value;
  return isPlainObject(value) ? membersInOrder(value) : value;
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value);
}

/** A number in the text of its client: it is written as it is. */
function isRawNumber(value: object): boolean {
  return (JSON as unknown as { isRawJSON(value: object): boolean }).isRawJSON(value); // not in TypeScript's library yet
}

function membersInOrder(members: Record<string, unknown>): Record<string, unknown> {
  const sorted = Object.entries(members)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => [name, inOrder(value)]);
  // Without a prototype, so that a member named `__proto__` stays a member.
  return Object.assign(Object.create(null) as Record<string, unknown>, Object.fromEntries(sorted));
}

/** Returns why a request with an idempotency key that was used before gets no answer (contract.md#h1-idempotency-keys). */
export function repeatRefused(how: Exclude<Repeat, 'kept'>): ApiError {
  switch (how) {
    case 'mismatch':
      return new ApiError('IDEMPOTENCY_MISMATCH', 'This idempotency key was used for another request. Use a new key.');
    case 'lost':
      return new ApiError(
        'IDEMPOTENCY_RESULT_LOST',
        'The first request with this idempotency key was charged, and its answer is not kept. Use a new key to ask again.',
      );
    case 'running':
      return new ApiError(
        'CONFLICT',
        'The first request with this idempotency key is still running. Retry to get its answer.',
        { retryAfterMs: 1_000, headers: { 'x-should-retry': 'true' } },
      );
  }
}
