import { codesOf } from '../../ingress/api/route.ts';
import { type ErrorCode, errorStatus } from '../../shared/errors.ts';
import { documentedRoutes } from './api-routes.ts';
import { undocumentedIn } from './documented/check-answer.ts';
import type { RawAnswer } from './raw-http.ts';
import { requestId } from './refusal.ts';

/** A method and a path of the router. */
export type Route = string;
export const routes: readonly Route[] = Object.keys(documentedRoutes);

/** Refusals with separate tests: an account that uploads too many files at once. */
const shownElsewhere: Readonly<Record<Route, readonly ErrorCode[]>> = { 'POST /v1/files': ['rate_limit_exceeded'] };

/** The same for every route: a head that comes too late or is too large. */
const ofEveryRoute: readonly ErrorCode[] = ['REQUEST_TIMEOUT', 'HEADERS_TOO_LARGE'];

/**
 * Every response of each route, by method and router path: `200`, or the status and code of a refusal. Cases with separate tests are
 * omitted: those that are the same for every route, and internal faults (503, 504).
 */
export function documentedAnswers(route: Route): readonly string[] {
  const described = documentedRoutes[route] ?? unknown(route);
  const hasOwnLimit = (described.limits ?? []).length > 0;
  const shownHere = codesOf(described).filter(
    (code) =>
      errorStatus(code) < 500 &&
      !ofEveryRoute.includes(code) &&
      (code !== 'rate_limit_exceeded' || hasOwnLimit) &&
      !shownElsewhere[route]?.includes(code),
  );
  return ['200', ...shownHere.map((code) => `${errorStatus(code)} ${code}`)];
}

function unknown(route: Route): never {
  throw new Error(`there is no route ${route}`);
}

/** The only response that is a file. Its one line is JSON in these tests. */
const contentRoute = 'GET /v1/files/:file/content';

/** `200`, or the status and code of a refusal. */
export function answerName({ status, body }: Pick<RawAnswer, 'status' | 'body'>): string {
  if (status === 200) return '200';
  const { code, error } = JSON.parse(body) as { code?: string; error?: { code?: string } }; // a response of the service itself
  return `${status} ${code ?? error?.code}`;
}

/** A refusal in any shape. */
type RefusalBody = {
  code?: string;
  error: string | { code?: string; type?: string; limit?: string; message?: string };
};

/** A refusal links to its code, or to the type of its limit, on the configured page of errors. */
function leadsToHelp(link: string | undefined, { code, error }: RefusalBody): boolean {
  const nested = typeof error === 'object' ? error : {};
  const isLimit = nested.code === 'rate_limit_exceeded' || nested.code === 'quota_exceeded';
  const about = code ?? (isLimit ? (nested.limit ?? nested.type) : nested.code);
  return /^<https?:/.test(link ?? '') && link?.endsWith(`/errors#${about}>; rel="help"`) === true;
}

function messageOf({ error }: RefusalBody): unknown {
  return typeof error === 'object' ? error.message : error;
}

/** A head that cannot be read has no path, so its refusal has the usual shape on every route. */
const isUnreadHead = ({ error }: RefusalBody) => typeof error === 'string' && error.startsWith('request: ');
const usualPath = '/v1/chat/completions';

/** Refusals of an invalid head: no route is known yet, and they contain nothing of a caller. */
const beforeAnyRoute = /^(x-client-request-id|request|Host): /;
/** Far above any message of the service: input of a client is not echoed at length. */
const refusalBytesMax = 2_000;

/** Statuses that a retry cannot change. Each 429 of these routes is one, too: the plan lacks the model. */
const finalStatuses: ReadonlySet<number> = new Set([401, 402, 403, 404, 409, 429]);

/**
 * Differences of a response from the document of its route, from the headers of every response of a route, and from the headers of its
 * route. `base` is the path below which the request went.
 */
export function shapeFaults(route: Route, answer: RawAnswer, base = ''): string[] {
  const { status, headers, body } = answer;
  const [method = '', path = ''] = route.split(' ');
  const refusal: RefusalBody | undefined = status === 200 ? undefined : JSON.parse(body); // a response of the service itself
  const shown = refusal && method === 'POST' && isUnreadHead(refusal) ? usualPath : pathLike(path);
  const seen = { method, path: base + shown, status, body, header: (name: string) => headers[name] };
  const message = refusal ? messageOf(refusal) : '';
  const mayWait = status === 409 && headers['retry-after'] !== undefined;
  const isFile = status === 200 && route === contentRoute;
  // The document says which routes have it.
  const isCsv = status === 200 && headers['content-type']?.startsWith('text/csv');
  const ofBody = isCsv ? 'text/csv; charset=utf-8; header=present' : 'application/json; charset=utf-8';
  const type = isFile ? 'application/octet-stream' : ofBody;
  const claims: Record<string, boolean> = {
    'has its content type': headers['content-type'] === type,
    'has a request id': requestId.test(headers['x-request-id'] ?? ''),
    'names the scheme of a 401, and of no other status':
      headers['www-authenticate'] === (status === 401 ? 'Bearer' : undefined),
    'has the caching of its route': headers['cache-control'] === cachingOf(route, status, message),
    'says what is wrong': typeof message === 'string',
    'links to the explanation of its error':
      refusal === undefined ? headers.link === undefined : leadsToHelp(headers.link, refusal),
    'says whether a retry is useless':
      headers['x-should-retry'] === (mayWait ? 'true' : finalStatuses.has(status) ? 'false' : undefined),
    'is short if it is a refusal': status === 200 || Buffer.byteLength(body) <= refusalBytesMax,
  };
  return [...undocumentedIn(seen), ...Object.keys(claims).filter((claim) => claims[claim] === false)];
}

/** Differences of a response from the document, if its path does not support its method. */
export function shapeFaultsOffRoute(method: string, path: string, { status, headers, body }: RawAnswer): string[] {
  return undocumentedIn({ method, path, status, body, header: (name) => headers[name] });
}

/** Any path of the route. The document does not depend on it. */
function pathLike(pattern: string): string {
  return pattern.replace(/[:*]/g, '');
}

function cachingOf(route: Route, status: number, message: unknown): string | undefined {
  if (route === 'GET /openapi.json' || route === 'GET /plan-file.schema.json')
    return status === 200 ? 'no-cache' : undefined;
  return documentedRoutes[route]?.noStore && !beforeAnyRoute.test(String(message)) ? 'no-store' : undefined;
}
