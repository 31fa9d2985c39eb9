import type Router from '@koa/router';
import { ApiError } from '../../shared/errors.ts';
import { shownText } from '../api/shown-text.ts';
import { isOpenAiRoute, suggestRoute } from '../api/suggest-route.ts';
import type { AppContext, RequestState, Stage } from '../request-state.ts';

/**
 * Answers a WebSocket handshake for a known path with 426, before its route is asked (contract.md#b2-codes). On any other status Codex
 * repeats the handshake for seconds, or gives up.
 */
export function refuseUpgrades(router: Router<RequestState>): Stage {
  return async function refuseUpgrades(ctx, next) {
    if (!isWebSocketHandshake(ctx) || methodsAt(router, ctx.path).length === 0) return next();
    const message = 'This service has no WebSockets. Send the request over HTTP, without an upgrade.';
    // Without `close`, Node would keep the connection open, also while the process stops.
    throw new ApiError('UPGRADE_REQUIRED', message, { headers: { Upgrade: 'HTTP/1.1', Connection: 'close, Upgrade' } });
  };
}

/** RFC 6455 4.2.1. HTTP/1.0 has no upgrades (RFC 9110 7.8). */
function isWebSocketHandshake({ method, headers, req }: AppContext): boolean {
  const lists = (header = '', entry: string) => header.split(',').some((each) => each.trim().toLowerCase() === entry);
  const isOffered = method === 'GET' && req.httpVersion === '1.1';
  return isOffered && lists(headers.upgrade, 'websocket') && lists(headers.connection, 'upgrade');
}

/**
 * Answers requests that no route has taken: 404 for an unknown path, with the route that was probably meant; 405 with `Allow` for a known
 * path; and `OPTIONS`.
 */
export function refuseUnrouted(router: Router<RequestState>): Stage {
  const patterns = [...new Set(router.stack.flatMap(({ path }) => (typeof path === 'string' ? [path] : [])))];

  return async function refuseUnrouted(ctx) {
    const methods = methodsAt(router, ctx.path);
    if (methods.length === 0) throw new ApiError('NOT_FOUND', describeUnknown(ctx));
    const allow = [...methods, 'OPTIONS'].join(', ');
    if (ctx.method !== 'OPTIONS') {
      throw new ApiError('METHOD_NOT_ALLOWED', `This path takes ${allow}.`, { headers: { Allow: allow } });
    }
    ctx.set('allow', allow);
    ctx.status = 204;
  };

  function describeUnknown({ method, path, state: { basePath = '' } }: AppContext): string {
    const meant = suggestRoute({ method, path }, { methodsAt: (known) => methodsAt(router, known), patterns });
    const shown = shownText(basePath + path);
    if (meant !== undefined) {
      const base = meant.path.startsWith('/v1/') ? basePath : ''; // no other routes are below the base path
      return `There is nothing at ${shown}. Did you mean ${meant.method} ${shownText(base + meant.path)}?`;
    }
    if (isOpenAiRoute(path)) return `${shown} is not offered by this service.`;
    return `There is nothing at ${shown}.`;
  }
}

function methodsAt(router: Router<RequestState>, path: string): string[] {
  return [...new Set(router.match(path, 'GET').path.flatMap(({ methods }): string[] => methods))];
}
