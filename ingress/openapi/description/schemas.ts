import { z } from 'zod';
import * as answers from '../../api/response-schemas.ts';
import { keptSecondsMin } from '../../files/form-fields.ts';
import { operatorRequest, operatorRequestList, request, requestList } from '../../requests/request-schemas.ts';
import { overageBody } from '../../routes/billing/overage.ts';
import { topUpBody } from '../../routes/billing/top-ups.ts';
import { batchBody } from '../../routes/create-batch.ts';
import { emptyObject, namedKeyBody } from '../../routes/keys/developer-keys.ts';
import { guestBody } from '../../routes/keys/guest-keys.ts';
import { keyChangeBody, newKeyBody, rotationBody } from '../../routes/keys/key-fields.ts';
import * as keys from '../../routes/keys/key-schemas.ts';
import { ownAccount } from '../../routes/keys/own-account.ts';
import { anyModel, anyModelList } from '../../routes/models.ts';
import { settingsBody } from '../../routes/operators/accounts/account-settings.ts';
import { reasonOnly } from '../../routes/operators/accounts/reason.ts';
import { pauseBody, pausedBackend } from '../../routes/operators/actions/pause-backend.ts';
import { removedAccount } from '../../routes/operators/actions/remove-account.ts';
import { foundThings } from '../../routes/operators/find.ts';
import { fleet } from '../../routes/operators/fleet.ts';
import { serviceSettings } from '../../routes/operators/settings.ts';
import * as codes from '../../routes/operators/top-up-code-schemas.ts';
import { newWebhookBody, webhookChangeBody } from '../../routes/webhooks/webhook-fields.ts';
import * as webhooks from '../../routes/webhooks/webhook-schemas.ts';
import * as usage from '../../usage/usage-schemas.ts';
import { nestedError } from './refusals.ts';

/** The form that `ingress/files/read-form.ts` reads. */
const fileUpload = z.strictObject({
  purpose: z.literal('batch'),
  file: z.file().meta({ description: 'JSON lines, one request per line.' }),
  'expires_after[anchor]': z.literal('created_at').optional(),
  'expires_after[seconds]': z
    .int()
    .min(keptSecondsMin)
    .optional()
    .meta({ description: 'How long the file is kept, at most as long as without it. Needs the anchor.' }),
});

/** The schemas that validate request bodies, by their names in the document; those of endpoints are in their descriptions. */
export const requestSchemas = {
  EmptyObject: emptyObject,
  NamedKey: namedKeyBody,
  Device: guestBody,
  NewKey: newKeyBody,
  KeyChange: keyChangeBody,
  KeyRotation: rotationBody,
  FileUpload: fileUpload,
  NewBatch: batchBody,
  Overage: overageBody,
  TopUp: topUpBody,
  NewWebhook: newWebhookBody,
  WebhookChange: webhookChangeBody,
  AccountSettings: settingsBody,
  NewTopUpCodes: codes.newCodesBody,
  Reason: reasonOnly,
  PauseBackend: pauseBody,
};

/** The responses, in the same way. */
export const answerSchemas = {
  Model: anyModel,
  ModelList: anyModelList,
  MintedKey: answers.mintedKey,
  RotatedKey: answers.rotatedKey,
  RevokedKey: answers.revokedKey,
  GuestKey: answers.guestKey,
  DeveloperKey: answers.developerKey,
  DeveloperKeyList: answers.developerKeyList,
  Key: keys.key,
  KeyList: keys.keyList,
  CreatedKey: keys.createdKey,
  SuccessorKey: keys.successorKey,
  OwnKey: keys.ownKey,
  OwnAccount: ownAccount,
  File: answers.file,
  FileList: answers.fileList,
  DeletedFile: answers.deletedFile,
  Batch: answers.batch,
  BatchList: answers.batchList,
  Webhook: webhooks.webhook,
  WebhookList: webhooks.webhookList,
  CreatedWebhook: webhooks.createdWebhook,
  DeletedWebhook: webhooks.deletedWebhook,
  WebhookDelivery: webhooks.delivery,
  WebhookDeliveryList: webhooks.deliveryList,
  Request: request,
  RequestList: requestList,
  Quota: answers.quota,
  Usage: usage.usage,
  UsageReport: usage.usageReport,
  UsageOrReport: usage.usageOrReport,
  Plan: answers.planLimits,
  LimitsInUse: answers.limitsInUse,
  PlanList: answers.planList,
  ServiceSettings: serviceSettings,
  Fleet: fleet,
  PausedBackend: pausedBackend,
  RemovedAccount: removedAccount,
  FoundThings: foundThings,
  OperatorRequest: operatorRequest,
  OperatorRequestList: operatorRequestList,
  OperatorBatch: answers.operatorBatch,
  OperatorBatchList: answers.operatorBatchList,
  Account: answers.account,
  ChangedAccount: answers.changedAccount,
  AccountList: answers.accountList,
  AuditRecordList: answers.auditRecordList,
  CreatedTopUpCodes: codes.createdTopUpCodes,
  TopUpCode: codes.topUpCode,
  TopUpCodeList: codes.topUpCodeList,
  Home: answers.home,
  NestedError: nestedError,
};

export type RequestName = keyof typeof requestSchemas;
export type AnswerName = keyof typeof answerSchemas;
