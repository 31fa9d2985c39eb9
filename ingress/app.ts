import Koa from 'koa';
import type { AppParts } from './app-parts.ts';
import { answerErrors } from './middleware/answer-errors.ts';
import { noteClientAddress } from './middleware/authenticate.ts';
import { cutSlowReaders } from './middleware/cut-slow-readers.ts';
import { logRequest, traceRequest } from './middleware/observe-requests.ts';
import {
  assignRequestId,
  chooseErrorFormat,
  echoClientRequestId,
  holdPlanFile,
  requireWellFormedHead,
} from './middleware/request-head.ts';
import { refuseUnrouted, refuseUpgrades, routeRequests } from './middleware/route-requests.ts';
import { allowOrigins, setSecurityHeaders } from './middleware/security-headers.ts';
import type { RequestState } from './request-state.ts';
import { createRouter } from './router.ts';
import { routes } from './routes.ts';

/**
 * Creates the app of the public listener (contract.md#a1-public-listener): the stages of every request, then the routes
 * (router.ts).
 */
export function createApp(parts: AppParts): Koa<RequestState> {
  const app = new Koa<RequestState>();
  const { log, http } = parts;
  const router = createRouter(routes, parts);
  app.use(cutSlowReaders());
  app.use(holdPlanFile(http));
  app.use(setSecurityHeaders(http.securityHeaders));
  app.use(assignRequestId);
  app.use(traceRequest(http));
  app.use(chooseErrorFormat);
  app.use(noteClientAddress(http));
  app.use(logRequest({ ...http, log }));
  app.use(answerErrors({ ...http, log }));
  app.use(requireWellFormedHead);
  app.use(allowOrigins(routes, http));
  app.use(echoClientRequestId);
  app.use(refuseUpgrades(router));
  app.use(routeRequests(router));
  app.use(refuseUnrouted(router));
  app.on('error', (error) => log.debug({ err: error }, 'a connection ended early'));
  return app;
}
