import { readFileSync } from 'node:fs';
import { endpoints } from '../../shared/endpoints/routes.ts';

/** Pages for people are not part of the API: the document does not list them. */
const page = /^\w+ \/(docs|console)\b/;
/** `router.post(` with a path, or with that of every endpoint. */
const use = /\brouter\.(\w+)\(\s*(?:'([^']+)'|(endpoint\.path))/g;

const sources = ['router.ts', 'routes/webhooks/route-webhooks.ts'];

/** Every route of the public listener's router except those of pages, as its sources write them: `GET /v1/files/:file`. */
export function routerRoutes(): string[] {
  const text = sources.map((path) => readFileSync(new URL(`../../ingress/${path}`, import.meta.url), 'utf8')).join();
  const routed = [...text.matchAll(use)];
  const uses = [...text.matchAll(/\brouter\.(?!routes\(\))\w+/g)];
  if (routed.length !== uses.length) throw new Error('the router is used in an unknown way');
  return routed
    .flatMap(([, method = '', path, ofEach]) =>
      (ofEach === undefined ? [path] : endpoints.map((endpoint) => endpoint.path)).map(
        (each) => `${method.toUpperCase()} ${each}`,
      ),
    )
    .filter((route) => !page.test(route));
}
