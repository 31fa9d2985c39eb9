import { getRandomValues } from 'node:crypto';
import { monotonicFactory } from 'ulid';
import { ApiError } from '../../shared/errors.ts';
import type { Stage } from '../request-state.ts';

const nextUlid = monotonicFactory(drawRandom());
const clientIdPattern = /^[\x21-\x7e]{1,512}$/;

/** Returns `req_` and a ULID. The ids of one process ascend. */
export function nextRequestId(): string {
  return `req_${nextUlid()}`;
}

/** Gives the request an id, and sets it on the response (contract.md#a3-request-ids). */
export const assignRequestId: Stage = function assignRequestId(ctx, next) {
  ctx.state.requestId = nextRequestId();
  ctx.res.setHeader('x-request-id', ctx.state.requestId);
  return next();
};

/** Echoes and logs the client's own request id. It is never used as an id of ours. */
export const echoClientRequestId: Stage = function echoClientRequestId(ctx, next) {
  const clientId = ctx.get('x-client-request-id');
  if (clientId !== '') {
    if (!clientIdPattern.test(clientId)) {
      throw new ApiError('VALIDATION_ERROR', 'x-client-request-id: expected at most 512 visible ASCII characters');
    }
    ctx.state.clientRequestId = clientId;
    ctx.res.setHeader('x-client-request-id', clientId);
  }
  return next();
};

/**
 * Returns random numbers from 0 to below 1 by the platform's generator, drawn many at a time: a call for each letter would cost more than
 * the rest of an id.
 */
function drawRandom(): () => number {
  const drawn = new Uint32Array(256);
  let next = drawn.length;
  return () => {
    if (next === drawn.length) {
      getRandomValues(drawn);
      next = 0;
    }
    return (drawn[next++] ?? 0) / 2 ** 32;
  };
}
