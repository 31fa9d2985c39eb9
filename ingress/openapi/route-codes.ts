import type { ErrorCode } from '../../shared/errors.ts';
import type { RouteDescription } from './route-description.ts';

/** What is refused before any route is looked for, and what any of them can come to. */
const ofEveryRoute: readonly ErrorCode[] = ['REQUEST_TIMEOUT', 'HEADERS_TOO_LARGE', 'INTERNAL_ERROR'];

/** Every code that a route can answer with: its own, and those that all have alike. */
export function codesOf(route: RouteDescription): ErrorCode[] {
  // What needs nobody and reads nothing asks no part of ours for anything.
  const asksParts = route.credential !== 'none' || route.body !== undefined;
  return [...route.refusals, ...ofEveryRoute, ...(asksParts ? (['SERVICE_UNAVAILABLE'] as const) : [])];
}
