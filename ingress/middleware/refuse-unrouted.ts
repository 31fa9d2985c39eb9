import type Router from '@koa/router';
import { ApiError } from '../../shared/errors.ts';
import { shownText } from '../api/shown-text.ts';
import { isOpenAiRoute, suggestRoute } from '../api/suggest-route.ts';
import type { AppContext, RequestState, Stage } from '../request-state.ts';

/**
 * Answers requests that no route has taken: 404 for an unknown path, with the route that was probably meant; 405 with `Allow` for a known
 * path; and `OPTIONS`.
 */
export function refuseUnrouted(router: Router<RequestState>): Stage {
  const patterns = [...new Set(router.stack.flatMap(({ path }) => (typeof path === 'string' ? [path] : [])))];
  const methodsAt = (path: string) => [
    ...new Set(router.match(path, 'GET').path.flatMap(({ methods }): string[] => methods)),
  ];

  return async function refuseUnrouted(ctx) {
    const methods = methodsAt(ctx.path);
    if (methods.length === 0) throw new ApiError('NOT_FOUND', describeUnknown(ctx));
    const allow = [...methods, 'OPTIONS'].join(', ');
    if (ctx.method !== 'OPTIONS') {
      throw new ApiError('METHOD_NOT_ALLOWED', `This path takes ${allow}.`, { headers: { Allow: allow } });
    }
    ctx.set('allow', allow);
    ctx.status = 204;
  };

  function describeUnknown({ method, path, state: { basePath = '' } }: AppContext): string {
    const meant = suggestRoute({ method, path }, { methodsAt, patterns });
    const shown = shownText(basePath + path);
    if (meant !== undefined) {
      const base = meant.path.startsWith('/v1/') ? basePath : ''; // no other routes are below the base path
      return `There is nothing at ${shown}. Did you mean ${meant.method} ${shownText(base + meant.path)}?`;
    }
    if (isOpenAiRoute(path)) return `${shown} is not offered by this service.`;
    return `There is nothing at ${shown}.`;
  }
}
