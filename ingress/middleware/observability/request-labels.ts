import type { AppContext } from '../../request-state.ts';

const methods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS']);

/** The method comes from the client and could be any text, and each new label value creates a permanent time series. */
export function labelMethod(method: string): string {
  return methods.has(method) ? method : 'other';
}

/** The path of the route that the router has found, with the names of its parameters; undefined if there is none. */
export function matchedRoute(ctx: AppContext): string | undefined {
  const { _matchedRoute: route } = ctx as { _matchedRoute?: unknown }; // set by the router
  return typeof route === 'string' ? route : undefined;
}
