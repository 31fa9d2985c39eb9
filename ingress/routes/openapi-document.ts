import { askFirst, send } from '../pages/serve-content.ts';
import type { StaticContent } from '../pages/static-content.ts';
import type { Stage } from '../request-state.ts';

/** `GET /plan-file.schema.json`: the shape of the plan file, for editors. */
export function retrievePlanFileSchema({ planFileSchema }: { planFileSchema: StaticContent }): Stage {
  return async function retrievePlanFileSchema(ctx) {
    send(ctx, planFileSchema, askFirst);
  };
}

/** `GET /openapi.json`: the description of the API. It is the same for all clients, so it needs no credential. */
export function retrieveOpenApiDocument({ openApiDocument }: { openApiDocument: StaticContent }): Stage {
  return async function retrieveOpenApiDocument(ctx) {
    send(ctx, openApiDocument, askFirst);
  };
}
