import type { ErrorCode } from '../../../shared/errors.ts';
import type { LimitType } from './refusals.ts';
import type { Credential, RouteDescription } from './route-description.ts';

/** Errors before a route is chosen, and errors that every route can have. */
const ofEveryRoute: readonly ErrorCode[] = ['REQUEST_TIMEOUT', 'HEADERS_TOO_LARGE', 'INTERNAL_ERROR'];

/** A key that is not in memory is refused if its network has sent too many unknown keys. */
const takeKeys: readonly Credential[] = ['key', 'either', 'account'];

/** All codes that a route can answer with, each once: its own and the common ones. */
export function codesOf(route: RouteDescription): ErrorCode[] {
  const limited = limitsOf(route).length > 0 ? (['rate_limit_exceeded'] as const) : [];
  // A route without a credential that reads nothing depends on no other part of the service.
  const asksParts = route.credential !== 'none' || route.body !== undefined;
  const unavailable = asksParts ? (['SERVICE_UNAVAILABLE'] as const) : [];
  return [...new Set([...route.refusals, ...ofEveryRoute, ...limited, ...unavailable])];
}

/** All types that a 429 of this route can have. */
export function limitsOf({ credential, limits = [] }: RouteDescription): LimitType[] {
  return takeKeys.includes(credential) ? [...limits, 'auth_failures'] : [...limits];
}
