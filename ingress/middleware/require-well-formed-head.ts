import { ApiError } from '../../shared/errors.ts';
import { headerValues } from '../listener/headers.ts';
import type { AppContext, Stage } from '../request-state.ts';

/**
 * Requires exactly one Host header (RFC 9112 3.2), and a target that can be parsed. Node's own check of Host is turned off, because its
 * refusal has no body.
 */
export const requireWellFormedHead: Stage = function requireWellFormedHead(ctx, next) {
  if (ctx.req.httpVersion === '1.1' && headerValues(ctx.req, 'host').length !== 1) {
    throw new ApiError('VALIDATION_ERROR', 'Host: expected exactly one Host header');
  }
  requireReadablePath(ctx);
  return next();
};

function requireReadablePath(ctx: AppContext): void {
  try {
    void ctx.path;
  } catch (error) {
    throw new ApiError('VALIDATION_ERROR', 'request: expected a path', { cause: error });
  }
}
