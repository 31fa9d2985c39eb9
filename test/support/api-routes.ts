import type Router from '@koa/router';
import type { Route } from '../../ingress/api/route.ts';
import type { AppParts } from '../../ingress/app-parts.ts';
import type { RequestState, Stage } from '../../ingress/request-state.ts';
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
  return handleRoute(routeOf(id), parts as AppParts); // all that the route uses
}

/** Serves the routes with these ids at their methods and paths, with their last stage only. */
export function mountRoutes(router: Router<RequestState>, ids: readonly string[], parts: SomeParts): void {
  for (const id of ids) {
    const { path, method } = routeOf(id);
    router.register(path, [method], stageOf(id, parts));
  }
}

function routeOf(id: string): Route {
  const route = routes.find((each) => each.id === id);
  if (route === undefined) throw new Error(`there is no route ${id}`);
  return route;
}
