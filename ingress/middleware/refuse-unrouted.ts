import type Router from '@koa/router';
import { ApiError } from '../../shared/errors.ts';
import type { RequestState, Stage } from '../request-state.ts';

/** What no route has taken: 404 for an unknown path, 405 with `Allow` for a known one, and what `OPTIONS` asks. */
export function refuseUnrouted(router: Router<RequestState>): Stage {
  return async function refuseUnrouted(ctx) {
    const methods = new Set(router.match(ctx.path, ctx.method).path.flatMap((layer) => layer.methods));
    if (methods.size === 0) throw new ApiError('NOT_FOUND', 'There is nothing at this path.');
    const allow = [...methods, 'OPTIONS'].join(', ');
    if (ctx.method !== 'OPTIONS') {
      throw new ApiError('METHOD_NOT_ALLOWED', `This path takes ${allow}.`, { headers: { Allow: allow } });
    }
    ctx.set('allow', allow);
    ctx.status = 204;
  };
}
