import { readFileSync } from 'node:fs';

/** Pages for people are not part of the API: the document does not list them. */
const page = /^\w+ \/(docs|console)\b/;

/** Every route of the public listener's router except those of pages, as `ingress/app.ts` writes them: `GET /v1/files/:file`. */
export function routerRoutes(): string[] {
  const text = readFileSync(new URL('../../ingress/app.ts', import.meta.url), 'utf8');
  const routed = [...text.matchAll(/\brouter\.(\w+)\(\s*'([^']+)'/g)];
  const uses = [...text.matchAll(/\brouter\.(?!routes\(\))\w+/g)];
  if (routed.length !== uses.length) throw new Error('the router is used in an unknown way');
  return routed.map(([, method = '', path]) => `${method.toUpperCase()} ${path}`).filter((route) => !page.test(route));
}
