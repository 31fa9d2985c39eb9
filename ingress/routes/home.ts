import type { Home } from '../api/response-schemas.ts';
import type { Stage } from '../request-state.ts';

type Addresses = { baseUrl: string; consoleUrl: string; docsUrl: string };

/**
 * `GET /`: the addresses of the console, the documentation and the API description. Redirects browsers to the console
 * (contract.md#a5-home-and-unknown-pages).
 */
export function showHome({ baseUrl, consoleUrl, docsUrl }: Addresses): Stage {
  const home: Home = { console: consoleUrl, docs: docsUrl, openapi: `${baseUrl}/openapi.json` };
  return async function showHome(ctx) {
    ctx.vary('Accept');
    if (ctx.accepts('json', 'html') === 'html') {
      ctx.status = 302;
      ctx.set('location', consoleUrl);
    }
    ctx.body = home;
  };
}
