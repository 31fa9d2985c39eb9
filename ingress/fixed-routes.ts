import type Router from '@koa/router';
import type { RequestState, Stage } from './request-state.ts';

/**
 * The routes of a router whose paths have no parameters, found by one look into a table: the router tries its regular expressions in turn,
 * forty of them, and composes the stages again for each request. A path that more than one route takes is left to the router, as
 * everything else is. Leaves what the router leaves for the stages, the path of the route.
 */
export function fixedRoutes(router: Router<RequestState>): Stage {
  const routes = new Map<string, Stage>();
  for (const { path, methods, stack } of router.stack) {
    if (typeof path !== 'string' || /[:*{]/.test(path)) continue;
    for (const method of methods) {
      if (router.match(path, method).pathAndMethod.length > 1) continue;
      const run = inOrder(stack as Stage[]); // what its routes were given
      routes.set(`${method} ${path}`, (ctx, next) => run(Object.assign(ctx, { _matchedRoute: path }), next));
    }
  }

  return function fixedRoutes(ctx, next) {
    const route = routes.get(`${ctx.method} ${ctx.path}`);
    return route === undefined ? next() : route(ctx, next);
  };
}

/** One stage of several, each of which is given the rest of them as what is next. */
function inOrder(stages: readonly Stage[]): Stage {
  return function run(ctx, next) {
    const runFrom = (index: number): Promise<void> => {
      const stage = stages[index];
      return stage === undefined ? next() : stage(ctx, () => runFrom(index + 1));
    };
    return runFrom(0);
  };
}
