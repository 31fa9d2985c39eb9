import type { ServerResponse } from 'node:http';

/** Sets several headers of a response that has not begun. Koa's `ctx.set` makes four arrays of them first. */
export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) response.setHeader(name, headers[name] as string); // of a record of strings
}
