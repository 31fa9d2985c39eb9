import Router from '@koa/router';
import { endpoints } from '../shared/endpoints/routes.ts';
import type { AppDeps } from './app-deps.ts';
import { uncountedBodies } from './bodies/body-budget.ts';
import { admitRequest } from './middleware/admit-request.ts';
import { authenticateEither } from './middleware/authentication/authenticate-either.ts';
import { authenticateKey } from './middleware/authentication/authenticate-key.ts';
import { authenticateSignIn } from './middleware/authentication/authenticate-sign-in.ts';
import { checkPresentCaller, readLimitCounters } from './middleware/authentication/check-present-caller.ts';
import { checkRefusedCaller } from './middleware/authentication/check-refused-caller.ts';
import { limitGuestCalls } from './middleware/authentication/limit-guest-calls.ts';
import { limitSettings } from './middleware/authentication/limit-settings.ts';
import { refuseWithoutFiles } from './middleware/authentication/refuse-without-files.ts';
import { requireOperator } from './middleware/authentication/require-operator.ts';
import { useAccountAgain } from './middleware/authentication/use-account-again.ts';
import { forbidStoring } from './middleware/forbid-storing.ts';
import { answerRepeat } from './middleware/idempotency/answer-repeat.ts';
import { claimIdempotencyKey } from './middleware/idempotency/claim-idempotency-key.ts';
import { readCalls } from './middleware/read-call.ts';
import { readJsonBody } from './middleware/read-json-body.ts';
import { refuseFullQueue } from './middleware/refuse-full-queue.ts';
import { takeTurns } from './middleware/take-turns.ts';
import type { RequestState } from './request-state.ts';
import { answerCall } from './routes/answer-call.ts';
import { cancelBatch, listBatches, retrieveBatch } from './routes/batches.ts';
import { retrieveLimits } from './routes/billing/limits.ts';
import { updateOverage } from './routes/billing/overage.ts';
import { retrieveQuota } from './routes/billing/quota.ts';
import { redeemTopUpCode } from './routes/billing/top-ups.ts';
import { createBatch } from './routes/create-batch.ts';
import { showDocumentation, showDocumentationAsset } from './routes/documentation.ts';
import { retrieveFileContent } from './routes/file-content.ts';
import { uploadFile } from './routes/file-uploads.ts';
import { deleteFile, listFiles, retrieveFile } from './routes/files.ts';
import { showHome } from './routes/home.ts';
import {
  listDeveloperKeys,
  mintDeveloperKey,
  revokeDeveloperKey,
  rotateDeveloperKey,
} from './routes/keys/developer-keys.ts';
import {
  createKey,
  listKeys,
  retrieveKey,
  retrieveOwnKey,
  revokeKey,
  rotateKey,
  updateKey,
} from './routes/keys/further-keys.ts';
import { mintGuestKey } from './routes/keys/guest-keys.ts';
import { retrieveOwnAccount } from './routes/keys/own-account.ts';
import { listModels, retrieveModel } from './routes/models.ts';
import { retrieveOpenApiDocument, retrievePlanFileSchema } from './routes/openapi-document.ts';
import { listAccountBatches } from './routes/operators/accounts/account-batches.ts';
import { retrieveAccountLimits, retrieveAccountQuota } from './routes/operators/accounts/account-limits.ts';
import { listAccountRequests } from './routes/operators/accounts/account-requests.ts';
import { updateAccount } from './routes/operators/accounts/account-settings.ts';
import { retrieveAccountUsage } from './routes/operators/accounts/account-usage.ts';
import { listAccounts, retrieveAccount } from './routes/operators/accounts/accounts.ts';
import { cancelAnyBatch } from './routes/operators/actions/cancel-any-batch.ts';
import { endRequest } from './routes/operators/actions/end-request.ts';
import { pauseBackend, resumeBackend } from './routes/operators/actions/pause-backend.ts';
import { removeAccount } from './routes/operators/actions/remove-account.ts';
import { revokeAccountKey } from './routes/operators/actions/revoke-account-key.ts';
import { retrieveAllUsage } from './routes/operators/all-usage.ts';
import { listAudit } from './routes/operators/audit.ts';
import { retrieveAnyBatch } from './routes/operators/batches.ts';
import { findAnything } from './routes/operators/find.ts';
import { retrieveFleet } from './routes/operators/fleet.ts';
import { retrieveAnyRequest } from './routes/operators/requests.ts';
import { retrieveSettings } from './routes/operators/settings.ts';
import { createTopUpCodes, listTopUpCodes, revokeTopUpCode } from './routes/operators/top-up-codes.ts';
import { listPlans, retrievePlan } from './routes/plans.ts';
import { listRequests } from './routes/requests/list-requests.ts';
import { retrieveRequest } from './routes/requests/retrieve-request.ts';
import { retrieveUsage } from './routes/usage.ts';
import { routeWebhooks } from './routes/webhooks/route-webhooks.ts';

/** The largest body of a change to a key or an account: far more than its fields need. */
const settingsBytesMax = 16_384;
/** The largest body of a request for a guest key, which needs no credential. */
const deviceBytesMax = 4_096;

/** Creates the routes of the public listener, each with its own stages (contract.md#a1-public-listener). */
export function createRouter(deps: AppDeps): Router<RequestState> {
  const router = new Router<RequestState>({ strict: true, sensitive: true });
  const stages = createStages(deps);
  routeInference(router, deps, stages);
  routeKeys(router, deps, stages);
  routeFilesAndBatches(router, deps, stages);
  routeWebhooks(router, deps, stages);
  routeBilling(router, deps, stages);
  routeOperators(router, deps, stages);
  routePages(router, deps);
  return router;
}

type Stages = ReturnType<typeof createStages>;

/** The stages that several routes share. */
function createStages(deps: AppDeps) {
  const withKey = authenticateKey(deps);
  const withSignIn = authenticateSignIn(deps);
  const readSmallBody = (bytesMax: number) => {
    const bodyBytesMax = Math.min(bytesMax, deps.body.bodyBytesMax);
    return readJsonBody({ ...deps, ...deps.body, bodyBytesMax, budget: uncountedBodies });
  };
  return {
    withKey,
    withSignIn,
    withEither: authenticateEither({ withKey, withSignIn }),
    check: checkPresentCaller(deps),
    useAgain: useAccountAgain(deps),
    limitWrites: limitSettings(deps),
    turn: takeTurns(),
    readBody: readJsonBody({ ...deps, ...deps.body }),
    readSettings: readSmallBody(settingsBytesMax),
    readDevice: readSmallBody(deviceBytesMax),
  };
}

function routeInference(router: Router<RequestState>, deps: AppDeps, stages: Stages): void {
  const { withKey, withEither, check, readBody, turn } = stages;
  const readCall = readCalls(deps);
  for (const endpoint of endpoints) {
    router.post(
      endpoint.path,
      withKey,
      checkRefusedCaller(deps),
      readBody,
      claimIdempotencyKey(deps),
      readCall(endpoint),
      refuseFullQueue(deps),
      admitRequest(deps),
      answerRepeat(deps),
      answerCall(deps),
    );
  }
  router.get('/v1/models', withEither, check, listModels);
  router.get('/v1/models/*model', withEither, check, retrieveModel);
  router.get('/v1/requests', withEither, check, turn, listRequests(deps));
  router.get('/v1/requests/:request', withEither, check, turn, retrieveRequest(deps));
}

function routeKeys(router: Router<RequestState>, deps: AppDeps, stages: Stages): void {
  const { withKey, withSignIn, check, limitWrites, readSettings, readDevice, turn } = stages;
  const write = [forbidStoring, withSignIn, check, limitWrites];
  router.get('/v1/account', withSignIn, check, retrieveOwnAccount);
  router.get('/v1/keys/developer', forbidStoring, withSignIn, check, turn, listDeveloperKeys(deps));
  router.post('/v1/keys/developer', ...write, readSettings, mintDeveloperKey(deps));
  router.post('/v1/keys/developer/rotate', ...write, readSettings, rotateDeveloperKey(deps));
  router.post('/v1/keys/developer/revoke', ...write, readSettings, revokeDeveloperKey(deps));
  router.post('/v1/keys/guest', forbidStoring, limitGuestCalls(deps), readDevice, mintGuestKey(deps));

  router.get('/v1/keys', forbidStoring, withSignIn, check, turn, listKeys(deps));
  router.post('/v1/keys', ...write, readSettings, createKey(deps));
  router.get('/v1/keys/key_:key', forbidStoring, withSignIn, check, turn, retrieveKey(deps));
  router.patch('/v1/keys/key_:key', ...write, readSettings, updateKey(deps));
  router.delete('/v1/keys/key_:key', ...write, revokeKey(deps));
  router.post('/v1/keys/key_:key/rotate', ...write, readSettings, rotateKey(deps));
  router.get('/v1/key', forbidStoring, withKey, readLimitCounters(deps), retrieveOwnKey(deps));
}

function routeFilesAndBatches(router: Router<RequestState>, deps: AppDeps, stages: Stages): void {
  const { withEither, check, useAgain, readBody, turn } = stages;
  const upload = uploadFile({ ...deps, giveUp: deps.body.giveUp });
  router.post('/v1/files', withEither, check, refuseWithoutFiles, useAgain, upload);
  router.get('/v1/files', withEither, check, refuseWithoutFiles, turn, listFiles(deps));
  router.get('/v1/files/:file', withEither, check, refuseWithoutFiles, turn, retrieveFile(deps));
  router.get(
    '/v1/files/:file/content',
    forbidStoring,
    withEither,
    check,
    refuseWithoutFiles,
    retrieveFileContent(deps),
  );
  router.delete('/v1/files/:file', withEither, check, refuseWithoutFiles, turn, deleteFile(deps));

  router.post('/v1/batches', withEither, check, refuseWithoutFiles, useAgain, readBody, turn, createBatch(deps));
  router.get('/v1/batches', withEither, check, refuseWithoutFiles, turn, listBatches(deps));
  router.get('/v1/batches/:batch', withEither, check, refuseWithoutFiles, turn, retrieveBatch(deps));
  router.post('/v1/batches/:batch/cancel', withEither, check, refuseWithoutFiles, turn, cancelBatch(deps));
}

function routeBilling(router: Router<RequestState>, deps: AppDeps, stages: Stages): void {
  const { withEither, withSignIn, check, limitWrites, readSettings, turn } = stages;
  const readCounters = readLimitCounters(deps);
  router.get('/billing/quota', withEither, readCounters, retrieveQuota(deps));
  router.get('/billing/limits', withEither, readCounters, retrieveLimits(deps));
  router.patch('/billing/overage', withSignIn, readCounters, limitWrites, readSettings, updateOverage(deps));
  router.post('/billing/top-ups', withSignIn, readCounters, limitWrites, readSettings, redeemTopUpCode(deps));
  router.get('/billing/usage', withEither, check, turn, retrieveUsage(deps));
  router.get('/billing/plan', withEither, check, retrievePlan);
}

function routeOperators(router: Router<RequestState>, deps: AppDeps, stages: Stages): void {
  const { withSignIn, check, readSettings } = stages;
  const asOperator = requireOperator();
  router.get('/admin/accounts', withSignIn, check, asOperator, listAccounts(deps));
  router.get('/admin/accounts/:account', withSignIn, check, asOperator, retrieveAccount(deps));
  router.patch('/admin/accounts/:account', withSignIn, check, asOperator, readSettings, updateAccount(deps));
  router.delete('/admin/accounts/:account', withSignIn, check, asOperator, removeAccount(deps));
  router.get('/admin/accounts/:account/usage', withSignIn, check, asOperator, retrieveAccountUsage(deps));
  router.get('/admin/accounts/:account/quota', withSignIn, check, asOperator, retrieveAccountQuota(deps));
  router.get('/admin/accounts/:account/limits', withSignIn, check, asOperator, retrieveAccountLimits(deps));
  router.get('/admin/accounts/:account/requests', withSignIn, check, asOperator, listAccountRequests(deps));
  router.get('/admin/accounts/:account/batches', withSignIn, check, asOperator, listAccountBatches(deps));
  router.delete('/admin/accounts/:account/keys/key_:key', withSignIn, check, asOperator, revokeAccountKey(deps));
  router.get('/admin/batches/:batch', withSignIn, check, asOperator, retrieveAnyBatch(deps));
  router.post('/admin/batches/:batch/cancel', withSignIn, check, asOperator, readSettings, cancelAnyBatch(deps));
  router.get('/admin/usage', withSignIn, check, asOperator, retrieveAllUsage(deps));
  router.get('/admin/audit', withSignIn, check, asOperator, listAudit(deps));
  router.get('/admin/top-up-codes', withSignIn, check, asOperator, listTopUpCodes(deps));
  router.post(
    '/admin/top-up-codes',
    forbidStoring,
    withSignIn,
    check,
    asOperator,
    readSettings,
    createTopUpCodes(deps),
  );
  router.delete('/admin/top-up-codes/:code', withSignIn, check, asOperator, revokeTopUpCode(deps));
  router.get('/admin/plans', withSignIn, check, asOperator, listPlans);
  router.get('/admin/find', withSignIn, check, asOperator, findAnything(deps));
  router.get('/admin/requests/:request', withSignIn, check, asOperator, retrieveAnyRequest(deps));
  router.post('/admin/requests/:request/cancel', withSignIn, check, asOperator, readSettings, endRequest(deps));
  router.get('/admin/fleet', withSignIn, check, asOperator, retrieveFleet(deps));
  router.post('/admin/fleet/backends/:backend/pause', withSignIn, check, asOperator, readSettings, pauseBackend(deps));
  router.delete('/admin/fleet/backends/:backend/pause', withSignIn, check, asOperator, resumeBackend(deps));
  router.get('/admin/settings', withSignIn, check, asOperator, retrieveSettings(deps));
}

function routePages(router: Router<RequestState>, deps: AppDeps): void {
  router.get('/', showHome(deps));
  router.get('/openapi.json', retrieveOpenApiDocument(deps));
  router.get('/plan-file.schema.json', retrievePlanFileSchema(deps));
  router.get('/console', deps.console.page);
  router.get('/console/', deps.console.page);
  router.get('/console/assets/*asset', deps.console.asset);

  const showPage = showDocumentation(deps);
  router.get('/docs', showPage);
  router.get('/docs/', showPage);
  router.get('/docs/assets/*asset', showDocumentationAsset(deps));
  router.get('/docs/*page', showPage);
}
