import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import type { IngressConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import type { Redis } from '../shared/redis/connections.ts';
import { createOpenApiDocument } from './api/openapi-document.ts';
import { planFileJsonSchema } from './api/present-plan-file.ts';
import type { PageParts } from './app-parts.ts';
import type { IssuerKeys } from './authentication/issuer-keys.ts';
import { createConsole, createDocumentation, followExamples } from './pages/made-pages.ts';
import { createSharedAssets } from './pages/shared-assets.ts';
import { createStaticContent, type StaticContent } from './pages/static-content.ts';
import { routes } from './routes.ts';

/** Creates what the ingress serves beside the API: the console, the documentation, the OpenAPI document and the schema of the plan file. */
export function createPages({
  config: { links, signIn, product },
  currentPlanFile,
  redis,
  issuerKeys,
  log,
}: {
  config: Pick<IngressConfig, 'links' | 'signIn' | 'product'>;
  currentPlanFile: () => PlanFile;
  redis: Redis;
  issuerKeys: Pick<IssuerKeys, 'endpointOrigins'>;
  log: Log;
}): PageParts {
  const sharedAssets = createSharedAssets({ redis, log });
  const docsLinks = { ...links, authUrl: signIn.issuer };
  const document = createOpenApiDocument(routes, docsLinks);
  return {
    sharedAssets,
    console: createConsole({ ...links, ...signIn, product }, { shared: sharedAssets, ...issuerKeys }),
    openApiDocument: jsonContent(document),
    planFileSchema: jsonContent(planFileJsonSchema()),
    documentation: followExamples({
      currentPlanFile,
      create: (models) => createDocumentation({ links: docsLinks, product, models, document }),
    }),
  };
}

function jsonContent(value: object): StaticContent {
  return createStaticContent(JSON.stringify(value), 'application/json; charset=utf-8');
}
