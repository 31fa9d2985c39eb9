import type Router from '@koa/router';
import { isOneLetterOff } from '../../shared/endpoints/fields/field-names.ts';
import { ApiError } from '../../shared/errors.ts';
import { sortedMethods } from '../api/route.ts';
import { shownText } from '../listener/json-body.ts';
import type { AppContext, RequestState, Stage } from '../request-state.ts';

/**
 * Finds the route of a request: in a table if its path has no parameters, otherwise by the router. The router tries one regular expression
 * after another and composes the stages again for each request. With Koa and six empty stages this takes 33 µs a request, and 11 µs with
 * the table (decisions.md#koa-with-our-own-table-of-fixed-routes). A path that several routes match is left to the router. Sets
 * `_matchedRoute`, like the router.
 */
export function routeRequests(router: Router<RequestState>): Stage {
  const others = router.routes() as Stage; // the router adds what it needs to the context
  const fixed = new Map<string, Stage>();
  for (const { path, methods, stack } of router.stack) {
    if (typeof path !== 'string' || /[:*{]/.test(path)) continue;
    for (const method of methods) {
      if (router.match(path, method).pathAndMethod.length > 1) continue;
      const run = inOrder(stack as Stage[]); // the stages that its routes were created with
      fixed.set(`${method} ${path}`, (ctx, next) => run(Object.assign(ctx, { _matchedRoute: path }), next));
    }
  }

  return function routeRequests(ctx, next) {
    const route = fixed.get(`${ctx.method} ${ctx.path}`) ?? others;
    return route(ctx, next);
  };
}

/** Joins several stages into one. */
function inOrder(stages: readonly Stage[]): Stage {
  return function run(ctx, next) {
    const runFrom = (index: number): Promise<void> => {
      const stage = stages[index];
      return stage === undefined ? next() : stage(ctx, () => runFrom(index + 1));
    };
    return runFrom(0);
  };
}

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
  return sortedMethods(router.match(path, 'GET').path.flatMap(({ methods }): string[] => methods));
}

/** Prefixes that clients add to a path, or omit. */
const prefixes = new Set(['v1', 'api', 'openai']);

type Target = { method: string; path: string };

/** The routes of the service: the methods at a path, and the patterns of all paths. */
type Routes = { methodsAt: (path: string) => readonly string[]; patterns: readonly string[] };

/**
 * Suggests the route that an unknown path probably means: `/v1` is missing or superfluous, there is an extra slash, letters are upper case,
 * or one letter is wrong (contract.md#b12-hints-in-a-404).
 */
export function suggestRoute({ method, path }: Target, { methodsAt, patterns }: Routes): Target | undefined {
  const rest = pathWithoutPrefixes(path);
  const known = [rest, rest.toLowerCase()].flatMap((each) => [`/v1/${each}`, `/${each}`]);
  const corrected = known.flatMap((each) => correctedPaths(each.split('/'), patterns));
  const candidates = [...known, ...corrected];
  for (const candidate of candidates) {
    const methods = methodsAt(candidate).filter((each) => each !== 'HEAD');
    const [first] = methods;
    if (first !== undefined) return { method: methods.includes(method) ? method : first, path: candidate };
  }
  return undefined;
}

/** The path with one segment corrected to that of a pattern, for each pattern from which no more than one letter differs. */
function correctedPaths(segments: readonly string[], patterns: readonly string[]): string[] {
  return patterns.flatMap((pattern) => {
    const wanted = pattern.split('/');
    const fits = (segment: string, index: number) => isParameter(wanted[index]) || segment === wanted[index];
    const wrong = segments.findIndex((segment, index) => !fits(segment, index));
    const [sent = '', meant = ''] = [segments[wrong], wanted[wrong]];
    if (segments.length !== wanted.length || !isOneLetterOff(sent, meant)) return [];
    const corrected = segments.with(wrong, meant);
    return corrected.every(fits) ? [corrected.join('/')] : [];
  });
}

function isParameter(segment: string | undefined): boolean {
  return segment !== undefined && /[:*]/.test(segment);
}

/**
 * Routes of OpenAI's API, some of which this service does not have, by the segment after `/v1/` (platform.openai.com/docs/api-reference).
 */
const openAiRoutes = [
  ...['assistants', 'audio', 'chat', 'chatkit', 'completions', 'containers', 'conversations', 'edits', 'embeddings'],
  ...['engines', 'evals', 'fine-tunes', 'fine_tuning', 'graders', 'images', 'moderations', 'organization', 'projects'],
  ...['realtime', 'responses', 'threads', 'uploads', 'vector_stores', 'videos'],
];

/** Whether OpenAI's API has routes below this path. */
export function isOpenAiRoute(path: string): boolean {
  return openAiRoutes.includes(pathWithoutPrefixes(path).split('/')[0] ?? '');
}

function pathWithoutPrefixes(path: string): string {
  const parts = path.split('/').filter((part) => part !== '');
  const start = parts.findIndex((part) => !prefixes.has(part.toLowerCase()));
  return (start < 0 ? [] : parts.slice(start)).join('/');
}
