import { ApiError } from '../../shared/errors.ts';
import { headerValues } from '../api/header-values.ts';
import type { AppContext, Stage } from '../request-state.ts';

/**
 * One Host (RFC 9112 3.2), checked here and not by Node's HTTP server, whose own refusal has no body; and a target that can
 * be read, before anything else reads it.
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
