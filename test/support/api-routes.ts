import type { Route } from '../../ingress/api/route.ts';
import type { AppParts } from '../../ingress/app-parts.ts';
import type { Stage } from '../../ingress/request-state.ts';
import { handleRoute } from '../../ingress/router.ts';
import { routes } from '../../ingress/routes.ts';

/** The routes of the API, without pages for people, by method and path in the syntax of the router: `GET /v1/files/:file`. */
export const documentedRoutes: Readonly<Record<string, Route>> = Object.fromEntries(
  routes.filter(({ answers }) => answers.schema !== 'page').map((route) => [`${route.method} ${route.path}`, route]),
);

/** A route in the syntax of OpenAPI: `GET /v1/files/{file}`. */
export function templateOf(route: string): string {
  return route.replace(/\w*[:*](\w+)/g, '{$1}');
}

/** Parts of an ingress, as far as a route uses them. */
type SomeParts = { [Name in keyof AppParts]?: unknown };

/** The last stage of the route with this id. What the stages before it set is up to the test. */
export function stageOf(id: string, parts: SomeParts): Stage {
  const route = routes.find((each) => each.id === id);
  if (route === undefined) throw new Error(`there is no route ${id}`);
  return handleRoute(route, parts as AppParts); // all that the route uses
}
