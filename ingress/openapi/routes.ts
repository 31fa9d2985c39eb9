import { type RouteDescription, type RouteDescriptions, refusedHead } from './description/route-description.ts';
import { endpointRoutes } from './endpoints/descriptions.ts';
import { batchRoutes } from './routes/batches.ts';
import { billingRoutes } from './routes/billing.ts';
import { fileRoutes } from './routes/files.ts';
import { furtherKeyRoutes } from './routes/further-keys.ts';
import { keyRoutes } from './routes/keys.ts';
import { modelRoutes } from './routes/models.ts';
import { operatorActionRoutes } from './routes/operator-actions.ts';
import { operatorViewRoutes } from './routes/operator-views.ts';
import { operatorRoutes } from './routes/operators.ts';
import { requestRoutes } from './routes/requests.ts';
import { topUpCodeRoutes } from './routes/top-up-codes.ts';
import { webhookRoutes } from './routes/webhooks.ts';

const ownRoutes = {
  'GET /': {
    id: 'retrieveHome',
    tag: 'Documentation',
    summary: 'Retrieve the addresses of the console and the documentation',
    credential: 'none',
    answer: {
      description: 'The addresses.',
      schema: 'Home',
      redirect: 'With `Accept: text/html`: redirects to the console.',
      example: {
        console: 'https://api.example.com/console',
        docs: 'https://api.example.com/docs',
        openapi: 'https://api.example.com/openapi.json',
      },
    },
    refusals: refusedHead.none,
  },
  'GET /openapi.json': {
    id: 'retrieveOpenApiDocument',
    tag: 'Documentation',
    summary: 'Retrieve this document',
    credential: 'none',
    answer: { description: 'An OpenAPI 3.1 document.', schema: 'object', cached: true },
    refusals: refusedHead.none,
  },
  'GET /plan-file.schema.json': {
    id: 'retrievePlanFileSchema',
    tag: 'Documentation',
    summary: 'Retrieve the shape of the plan file',
    description: 'For editors: with it they complete and check plan files.',
    credential: 'none',
    answer: { description: 'A JSON Schema, draft 7.', schema: 'object', cached: true },
    refusals: refusedHead.none,
  },
} as const satisfies RouteDescriptions;

/** All routes of the public listener except pages, by method and path in the syntax of the router. */
export const documentedRoutes: Readonly<Record<string, RouteDescription>> = {
  ...endpointRoutes,
  ...modelRoutes,
  ...requestRoutes,
  ...keyRoutes,
  ...furtherKeyRoutes,
  ...fileRoutes,
  ...batchRoutes,
  ...webhookRoutes,
  ...billingRoutes,
  ...operatorRoutes,
  ...operatorViewRoutes,
  ...operatorActionRoutes,
  ...topUpCodeRoutes,
  ...ownRoutes,
};
