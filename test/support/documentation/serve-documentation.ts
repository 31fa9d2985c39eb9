import { once } from 'node:events';
import { createServer } from 'node:http';
import Router from '@koa/router';
import Koa from 'koa';
import type { Product } from '../../../ingress/console/session/browser.ts';
import { exampleModels } from '../../../ingress/documentation/reference/request-example.ts';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import { assignRequestId } from '../../../ingress/middleware/request-head.ts';
import { refuseUnrouted } from '../../../ingress/middleware/route-requests.ts';
import type { DocumentationLinks } from '../../../ingress/pages/documentation-site.ts';
import { createDocumentation } from '../../../ingress/pages/made-pages.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { freePort } from '../../stack/free-port.ts';
import { stageOf } from '../api-routes.ts';
import { batchPlan } from '../batch-plan.ts';
import { recordedLog } from '../recorded-log.ts';
import { smallDocument } from './small-document.ts';

type Wishes = { links?: Partial<DocumentationLinks>; document?: object; product?: Product };

const usualProduct: Product = { name: 'Inference service' };

/** The documentation as an ingress serves it, without the rest of an ingress. By default the reference shows a small document. */
export async function serveDocumentation({ links, document = smallDocument, product = usualProduct }: Wishes = {}) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const documentation = createDocumentation({
    links: {
      baseUrl: url,
      authUrl: 'https://sign-in.example.com/realms/main',
      consoleUrl: `${url}/console`,
      topupUrl: `${url}/console#top-up`,
      docsUrl: `${url}/docs`,
      ...links,
    },
    product,
    models: exampleModels(batchPlan()),
    document,
  });
  const sharedAssets = { async share() {}, find: async () => undefined };
  const router = new Router<RequestState>({ strict: true, sensitive: true });
  const pages = { documentation, sharedAssets };
  const showPage = stageOf('showDocumentation', { pages });
  router.get('/docs', showPage);
  router.get('/docs/', showPage);
  router.get('/docs/assets/*asset', stageOf('showDocumentationAsset', { pages }));
  router.get('/llms.txt', stageOf('showPageList', { pages }));
  router.get('/docs/*page', stageOf('showDocumentationPage', { pages }));
  const app = new Koa<RequestState>();
  app.use(assignRequestId);
  app.use(answerErrors({ log: recordedLog().log, docsUrl: `${url}/docs` }));
  app.use(router.routes());
  app.use(refuseUnrouted(router));
  const server = createServer(app.callback());
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url,
    documentation,
    async [Symbol.asyncDispose](): Promise<void> {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
