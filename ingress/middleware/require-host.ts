import { ApiError } from '../../shared/errors.ts';
import type { Stage } from '../request-state.ts';

/** RFC 9112 3.2. Checked here and not by Node's HTTP server, whose own refusal has no body. */
export const requireHost: Stage = async function requireHost(ctx, next) {
  if (ctx.req.httpVersion === '1.1' && ctx.req.headersDistinct.host?.length !== 1) {
    throw new ApiError('VALIDATION_ERROR', 'Host: expected exactly one Host header');
  }
  await next();
};
