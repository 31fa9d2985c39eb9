import { exactly } from '../../../shared/json/exact-json.ts';
import { bodyMarks, canonicalJson } from '../../idempotency/body-mark.ts';
import { idempotencyKeyOf } from '../../idempotency/idempotency-key.ts';
import { type Stage, stateOf } from '../../request-state.ts';

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
