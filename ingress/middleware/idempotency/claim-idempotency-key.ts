import { validationError } from '../../../shared/errors.ts';
import { exactly } from '../../../shared/json/exact-json.ts';
import { bodyMarks, canonicalJson } from '../../idempotency/body-mark.ts';
import { type Stage, stateOf } from '../../request-state.ts';

const headerName = 'idempotency-key';
const keyPattern = /^[!-~]{1,255}$/;

/**
 * Reads the `Idempotency-Key` of a request, and marks its body, so that a repeat can be told from another request with the same key
 * (contract.md#h1-idempotency-keys). Fails with `VALIDATION_ERROR` for a key of another form, and on a stream.
 */
export function claimIdempotencyKey({ peppers }: { peppers: readonly string[] }): Stage {
  return function claimIdempotencyKey(ctx, next) {
    const sent = ctx.req.headers[headerName];
    if (sent === undefined) return next();
    const idempotencyKey = String(sent);
    if (!keyPattern.test(idempotencyKey)) throw invalid('must be 1 to 255 visible ASCII characters');
    const body = stateOf(ctx, 'body');
    if ('stream' in body.value && body.value.stream === true) throw invalid('is not possible for a stream');
    const owner = { account: stateOf(ctx, 'caller').account, idempotencyKey };
    const asked = { endpoint: ctx.path, body: canonicalJson(exactly(body)) };
    ctx.state.claim = { idempotencyKey, bodyMarks: bodyMarks(peppers, owner, asked) };
    return next();
  };
}

function invalid(message: string): Error {
  return validationError([{ path: headerName, message }]);
}
