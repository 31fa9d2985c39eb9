import type { ErrorCode } from '../../../shared/errors.ts';
import type { LimitType } from './refusals.ts';
import type { Credential, RouteDescription } from './route-description.ts';

/** What is refused before any route is looked for, and what any of them can come to. */
const ofEveryRoute: readonly ErrorCode[] = ['REQUEST_TIMEOUT', 'HEADERS_TOO_LARGE', 'INTERNAL_ERROR'];

/** A key that is not in memory is refused where its network has sent too many that were not found. */
const takeKeys: readonly Credential[] = ['key', 'either', 'account'];

/** Every code that a route can answer with, each once: its own, and those that all have alike. */
export function codesOf(route: RouteDescription): ErrorCode[] {
  const limited = limitsOf(route).length > 0 ? (['rate_limit_exceeded'] as const) : [];
  // What needs nobody and reads nothing asks no part of ours for anything.
  const asksParts = route.credential !== 'none' || route.body !== undefined;
  const unavailable = asksParts ? (['SERVICE_UNAVAILABLE'] as const) : [];
  return [...new Set([...route.refusals, ...ofEveryRoute, ...limited, ...unavailable])];
}

/** Every type that a 429 of this route can have. */
export function limitsOf({ credential, limits = [] }: RouteDescription): LimitType[] {
  return takeKeys.includes(credential) ? [...limits, 'auth_failures'] : [...limits];
}
