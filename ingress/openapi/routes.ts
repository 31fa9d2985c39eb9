import { type RouteDescriptions, refusedHead } from './route-description.ts';
import { batchRoutes } from './routes/batches.ts';
import { billingRoutes } from './routes/billing.ts';
import { fileRoutes } from './routes/files.ts';
import { inferenceRoutes } from './routes/inference.ts';
import { keyRoutes } from './routes/keys.ts';
import { operatorRoutes } from './routes/operators.ts';

const ownRoutes = {
  'GET /openapi.json': {
    id: 'retrieveOpenApiDocument',
    tag: 'Documentation',
    summary: 'Retrieve this document',
    credential: 'none',
    answer: { description: 'An OpenAPI 3.1 document.', schema: 'object', cached: true },
    refusals: refusedHead.none,
  },
} as const satisfies RouteDescriptions;

/** Every route of the public listener but those of pages, by its method and its path as the router has it. */
export const documentedRoutes = {
  ...inferenceRoutes,
  ...keyRoutes,
  ...fileRoutes,
  ...batchRoutes,
  ...billingRoutes,
  ...operatorRoutes,
  ...ownRoutes,
};
