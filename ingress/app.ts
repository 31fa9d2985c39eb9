import Router from '@koa/router';
import Koa from 'koa';
import type { SuspensionWatch } from '../shared/limits/watch-suspensions.ts';
import type { Log } from '../shared/process/log.ts';
import type { PlanFile } from '../shared/process/plan-file.ts';
import type { Store } from '../shared/store/store.ts';
import { type BodyBudget, uncountedBodies } from './bodies/body-budget.ts';
import type { RefusedBodies } from './bodies/refused-bodies.ts';
import type { Callers } from './callers/callers.ts';
import type { CheckCaller } from './callers/check-caller.ts';
import type { GuestKeys } from './callers/guests/guest-keys.ts';
import type { LimitCalls } from './callers/guests/limit-calls.ts';
import type { LimitMints } from './callers/guests/limit-mints.ts';
import type { KeyUse } from './callers/key-use.ts';
import type { ChangeAccount } from './callers/revocation/change-account.ts';
import type { SharedCallers } from './callers/shared-callers.ts';
import type { SignIn } from './callers/sign-in.ts';
import type { Documentation } from './documentation/documentation.ts';
import type { LimitAuthFailures } from './limits/limit-auth-failures.ts';
import type { IngressMetrics } from './metrics.ts';
import { admitRequest } from './middleware/admit-request.ts';
import { allowOrigins } from './middleware/allow-origins.ts';
import { answerErrors } from './middleware/answer-errors.ts';
import { assignRequestId, echoClientRequestId } from './middleware/assign-request-id.ts';
import { authenticateEither } from './middleware/authentication/authenticate-either.ts';
import { authenticateKey } from './middleware/authentication/authenticate-key.ts';
import { authenticateSignIn } from './middleware/authentication/authenticate-sign-in.ts';
import { checkPresentCaller, readLimitCounters } from './middleware/authentication/check-present-caller.ts';
import { checkRefusedCaller } from './middleware/authentication/check-refused-caller.ts';
import { limitGuestCalls } from './middleware/authentication/limit-guest-calls.ts';
import { noteClientAddress } from './middleware/authentication/note-client-address.ts';
import { refuseGuests } from './middleware/authentication/refuse-guests.ts';
import { requireScope } from './middleware/authentication/require-scope.ts';
import { cutSlowReaders } from './middleware/cut-slow-readers.ts';
import { forbidStoring } from './middleware/forbid-storing.ts';
import { logRequest } from './middleware/log-request.ts';
import { readChatCall } from './middleware/read-chat-call.ts';
import { readJsonBody } from './middleware/read-json-body.ts';
import { refuseFullQueue } from './middleware/refuse-full-queue.ts';
import { refuseUnrouted } from './middleware/refuse-unrouted.ts';
import { requireWellFormedHead } from './middleware/require-well-formed-head.ts';
import { type SecurityHeaders, setSecurityHeaders } from './middleware/set-security-headers.ts';
import type { Console } from './pages/console/console.ts';
import { serveAsset } from './pages/serve-content.ts';
import type { StaticContent } from './pages/static-content.ts';
import type { QueueBounds } from './queue/queue-bounds.ts';
import type { QueueTurns } from './queue/queue-turns.ts';
import type { RequestQueues } from './queue/request-queues.ts';
import type { WaitingRequests } from './replies/waiting-requests.ts';
import type { RequestState } from './request-state.ts';
import { cancelBatch, createBatch, listBatches, retrieveBatch } from './routes/batches.ts';
import { chatCompletions } from './routes/chat-completions.ts';
import {
  listDeveloperKeys,
  mintDeveloperKey,
  revokeDeveloperKey,
  rotateDeveloperKey,
} from './routes/developer-keys.ts';
import { showDocumentation, showMissingPage } from './routes/documentation.ts';
import { retrieveFileContent } from './routes/file-content.ts';
import { uploadFile } from './routes/file-uploads.ts';
import { deleteFile, listFiles, retrieveFile } from './routes/files.ts';
import { mintGuestKey } from './routes/guest-keys.ts';
import { showHome } from './routes/home.ts';
import { listModels, retrieveModel } from './routes/models.ts';
import { retrieveOpenApiDocument } from './routes/openapi-document.ts';
import { updateAccount } from './routes/operators/account-settings.ts';
import { retrieveAccountUsage } from './routes/operators/account-usage.ts';
import { listAccounts, retrieveAccount } from './routes/operators/accounts.ts';
import { listAudit } from './routes/operators/audit.ts';
import { listPlans, retrievePlan } from './routes/plans.ts';
import { retrieveQuota } from './routes/quota.ts';
import { routeRequests } from './routes/route-requests.ts';
import { retrieveUsage } from './routes/usage.ts';

type AppParts = {
  log: Log;
  metrics: IngressMetrics;
  planFile: PlanFile;
  baseUrl: string;
  securityHeaders: SecurityHeaders;
  docsUrl: string;
  topupUrl: string;
  consoleUrl: string;
  console: Console;
  trustedProxyHops: number;
  peppers: readonly string[];
  store: Store;
  signIn: SignIn;
  callers: Callers;
  checkCaller: CheckCaller;
  changeAccount: ChangeAccount;
  guestKeys: GuestKeys;
  limitAuthFailures: LimitAuthFailures;
  limitCalls: LimitCalls;
  limitMints: LimitMints;
  sharedCallers: SharedCallers;
  keyUse: KeyUse;
  queues: RequestQueues;
  queueTurns: Pick<QueueTurns, 'next' | 'taken'>;
  queueBounds: QueueBounds;
  waitingRequests: WaitingRequests;
  suspensions: Pick<SuspensionWatch, 'follow'>;
  replyTo: () => string | undefined;
  documentation: Documentation;
  openApiDocument: StaticContent;
  /** `giveUp` is aborted when a shutdown waits no longer, with the `ApiError` that clients are to see. */
  body: { bodyBytesMax: number; bodyMs: number; giveUp: AbortSignal; budget: BodyBudget; refusedBodies: RefusedBodies };
};

/** The largest body of a change to a key or an account: far more than its fields can take. */
const settingsBytesMax = 16_384;
/** The largest body of a device, which needs no credential. */
const deviceBytesMax = 4_096;

/** The public listener: what every request passes, then each route with its own stages. */
export function createApp(parts: AppParts): Koa<RequestState> {
  const app = new Koa<RequestState>();
  const router = createRouter(parts);
  app.use(cutSlowReaders());
  app.use(setSecurityHeaders(parts.securityHeaders));
  app.use(assignRequestId);
  app.use(noteClientAddress(parts));
  app.use(logRequest(parts));
  app.use(answerErrors(parts));
  app.use(requireWellFormedHead);
  app.use(allowOrigins(parts));
  app.use(echoClientRequestId);
  app.use(routeRequests(router));
  app.use(refuseUnrouted(router));
  app.on('error', (error) => parts.log.debug({ err: error }, 'a connection ended early'));
  return app;
}

function createRouter(parts: AppParts): Router<RequestState> {
  const { defaultPlan } = parts.planFile;
  const readBody = readJsonBody({ ...parts, ...parts.body });
  const readSmallBody = (bytesMax: number) => {
    const bodyBytesMax = Math.min(bytesMax, parts.body.bodyBytesMax);
    return readJsonBody({ ...parts, ...parts.body, bodyBytesMax, budget: uncountedBodies });
  };
  const readSettings = readSmallBody(settingsBytesMax);
  const withKey = authenticateKey(parts);
  const withSignIn = authenticateSignIn(parts);
  const withEither = authenticateEither({ withKey, withSignIn });
  const check = checkPresentCaller(parts);
  const checkRefused = checkRefusedCaller(parts);
  const asOperator = requireScope('svc:admin');

  const router = new Router<RequestState>({ strict: true, sensitive: true });
  router.post(
    '/v1/chat/completions',
    withKey,
    checkRefused,
    readBody,
    readChatCall(parts),
    refuseFullQueue(parts),
    admitRequest(parts),
    chatCompletions(parts),
  );
  router.get('/v1/models', withEither, check, listModels(parts));
  router.get('/v1/models/*model', withEither, check, retrieveModel(parts));

  router.get('/v1/keys/developer', forbidStoring, withSignIn, check, listDeveloperKeys(parts));
  const mint = mintDeveloperKey({ ...parts, defaultPlan });
  router.post('/v1/keys/developer', forbidStoring, withSignIn, check, readSettings, mint);
  router.post('/v1/keys/developer/rotate', forbidStoring, withSignIn, check, readSettings, rotateDeveloperKey(parts));
  router.post('/v1/keys/developer/revoke', forbidStoring, withSignIn, check, readSettings, revokeDeveloperKey(parts));
  router.post(
    '/v1/keys/guest',
    forbidStoring,
    limitGuestCalls(parts),
    readSmallBody(deviceBytesMax),
    mintGuestKey(parts),
  );

  const upload = uploadFile({ ...parts, giveUp: parts.body.giveUp });
  router.post('/v1/files', withEither, check, refuseGuests, upload);
  router.get('/v1/files', withEither, check, refuseGuests, listFiles(parts));
  router.get('/v1/files/:file', withEither, check, refuseGuests, retrieveFile(parts));
  router.get('/v1/files/:file/content', forbidStoring, withEither, check, refuseGuests, retrieveFileContent(parts));
  router.delete('/v1/files/:file', withEither, check, refuseGuests, deleteFile(parts));

  router.post('/v1/batches', withEither, check, refuseGuests, readBody, createBatch(parts));
  router.get('/v1/batches', withEither, check, refuseGuests, listBatches(parts));
  router.get('/v1/batches/:batch', withEither, check, refuseGuests, retrieveBatch(parts));
  router.post('/v1/batches/:batch/cancel', withEither, check, refuseGuests, cancelBatch(parts));

  router.get('/billing/quota', withEither, readLimitCounters(parts), retrieveQuota(parts));
  router.get('/billing/usage', withEither, check, retrieveUsage(parts));
  router.get('/billing/plan', withEither, check, retrievePlan(parts));

  router.get('/admin/accounts', withSignIn, check, asOperator, listAccounts(parts));
  router.get('/admin/accounts/:account', withSignIn, check, asOperator, retrieveAccount(parts));
  router.patch('/admin/accounts/:account', withSignIn, check, asOperator, readSettings, updateAccount(parts));
  router.get('/admin/accounts/:account/usage', withSignIn, check, asOperator, retrieveAccountUsage(parts));
  router.get('/admin/audit', withSignIn, check, asOperator, listAudit(parts));
  router.get('/admin/plans', withSignIn, check, asOperator, listPlans(parts));

  router.get('/', showHome(parts));
  router.get('/openapi.json', retrieveOpenApiDocument(parts));
  router.get('/console', parts.console.page);
  router.get('/console/', parts.console.page);
  router.get('/console/assets/*asset', parts.console.asset);

  const showPage = showDocumentation(parts);
  router.get('/docs', showPage);
  router.get('/docs/', showPage);
  router.get('/docs/assets/*asset', serveAsset(parts.documentation.assets, showMissingPage(parts)));
  router.get('/docs/*page', showPage);
  return router;
}
