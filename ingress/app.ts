import Router from '@koa/router';
import Koa from 'koa';
import type { Admit } from '../shared/limits/admit.ts';
import type { Log } from '../shared/log.ts';
import type { PlanFile } from '../shared/plan-file.ts';
import type { Store } from '../shared/store/store.ts';
import type { FindCaller } from './callers.ts';
import type { IngressMetrics } from './metrics.ts';
import { admitRequest } from './middleware/admit-request.ts';
import { answerErrors } from './middleware/answer-errors.ts';
import { assignRequestId, echoClientRequestId } from './middleware/assign-request-id.ts';
import { authenticateEither } from './middleware/authenticate-either.ts';
import { authenticateKey } from './middleware/authenticate-key.ts';
import { authenticateSignIn } from './middleware/authenticate-sign-in.ts';
import { logRequest } from './middleware/log-request.ts';
import { readJsonBody } from './middleware/read-json-body.ts';
import { refuseUnrouted } from './middleware/refuse-unrouted.ts';
import { requireWellFormedHead } from './middleware/require-well-formed-head.ts';
import type { WaitingRequests } from './replies/waiting-requests.ts';
import type { RequestQueues } from './request-queues.ts';
import type { RequestState } from './request-state.ts';
import { chatCompletions } from './routes/chat-completions.ts';
import { mintDeveloperKey } from './routes/developer-keys.ts';
import { listModels, retrieveModel } from './routes/models.ts';
import type { SignIn } from './sign-in.ts';

export type AppParts = {
  log: Log;
  metrics: IngressMetrics;
  planFile: PlanFile;
  docsUrl: string;
  store: Store;
  signIn: SignIn;
  findCaller: FindCaller;
  pepper: string;
  admit: Admit;
  queues: RequestQueues;
  waitingRequests: WaitingRequests;
  replyTo: () => string | undefined;
  /** `giveUp` is aborted when a shutdown waits no longer, with the `ApiError` that clients are to see. */
  body: { bodyBytesMax: number; bodyMs: number; giveUp: AbortSignal };
};

/** The public listener: what every request passes, then each route with its own stages. */
export function createApp(parts: AppParts): Koa<RequestState> {
  const readBody = readJsonBody(parts.body);
  const defaultPlan = parts.planFile.defaultPlan;
  const withKey = authenticateKey(parts);
  const withSignIn = authenticateSignIn(parts);
  const withEither = authenticateEither({ ...parts, defaultPlan });

  const router = new Router<RequestState>();
  router.post('/v1/chat/completions', withKey, readBody, admitRequest(parts), chatCompletions(parts));
  router.get('/v1/models', withEither, listModels(parts));
  router.get('/v1/models/*model', withEither, retrieveModel(parts));
  router.post('/v1/keys/developer', withSignIn, readBody, mintDeveloperKey({ ...parts, defaultPlan }));

  const app = new Koa<RequestState>();
  app.use(assignRequestId);
  app.use(logRequest(parts));
  app.use(answerErrors(parts));
  app.use(requireWellFormedHead);
  app.use(echoClientRequestId);
  app.use(router.routes());
  app.use(refuseUnrouted(router));
  app.on('error', (error) => parts.log.debug({ err: error }, 'a connection ended early'));
  return app;
}
