import { askFirst, send } from '../pages/serve-content.ts';
import type { StaticContent } from '../pages/static-content.ts';
import type { Stage } from '../request-state.ts';

/** `GET /openapi.json`: what the API is, for machines; the same for everyone, so that it needs no credential. */
export function retrieveOpenApiDocument({ openApiDocument }: { openApiDocument: StaticContent }): Stage {
  return async function retrieveOpenApiDocument(ctx) {
    send(ctx, openApiDocument, askFirst);
  };
}
