import type { ServerResponse } from 'node:http';

/** Sets several headers. Koa's `ctx.set` creates four arrays for that, which costs more than the headers. */
export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) response.setHeader(name, headers[name] as string); // all values are strings
}
