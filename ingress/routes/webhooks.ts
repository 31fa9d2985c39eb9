import { ulid } from 'ulid';
import { ApiError, validationError } from '../../shared/errors.ts';
import { monthOf } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { WebhookEndpoint } from '../../shared/store/records/webhooks.ts';
import { findQuotaUsage, noteThresholds, reachedThresholds } from '../../shared/webhooks/quota-thresholds.ts';
import { makeDue } from '../../shared/webhooks/send-events.ts';
import { findPublicAddresses, parseWebhookUrl, WebhookAddressError } from '../../shared/webhooks/webhook-address.ts';
import { newWebhookSecret, type WebhookSecrets } from '../../shared/webhooks/webhook-secrets.ts';
import { exampleList, presentList } from '../api/lists.ts';
import { type Route, type RouteRequest, route } from '../api/route.ts';
import type { AppParts } from '../app-parts.ts';
import { emptyObject } from './developer-keys.ts';
import {
  createdWebhookSchema,
  deletedWebhookSchema,
  presentWebhook,
  webhookListSchema,
  webhookSchema,
} from './present-webhook.ts';
import {
  addEndpoint,
  changeEndpoint,
  changeFields,
  endpointIn,
  newWebhookBody,
  noSuchWebhook,
  removeEndpoint,
  rotateSecret,
  webhookChangeBody,
} from './webhook-changes.ts';

export const webhookParameter = {
  description: 'The id of a webhook endpoint.',
  example: 'wh_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  pattern: /^wh_[0-9A-HJKMNP-TV-Z]{26}$/,
  missing: noSuchWebhook,
};

const params = { webhook: webhookParameter };

const common = { access: 'signIn', tag: 'Webhooks', noStore: true, guard: requireWebhooks } as const;

export const exampleWebhook = {
  id: 'wh_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'webhook_endpoint',
  url: 'https://app.example.com/events',
  description: 'the billing service',
  events: ['batch.completed', 'quota.threshold'],
  enabled: true,
  disabled_reason: null,
  old_secrets_until: null,
  created_at: 1_767_225_600,
} as const;

const { url, events, description } = exampleWebhook;

const exampleSecret = 'whsec_…';

const isOff = '`FORBIDDEN` also if the operator has not enabled webhooks.';

export const webhookRoutes: readonly Route[] = [
  /** Creates an endpoint, and shows its secret only this once (contract.md#j3-deliveries). */
  route({
    ...common,
    id: 'createWebhook',
    method: 'POST',
    path: '/v1/webhooks',
    summary: 'Create a webhook endpoint',
    description: `The secret is shown only once. At most 10 endpoints an account; then \`CONFLICT\`. ${isOff}`,
    body: { schema: newWebhookBody, example: { url, events, description } },
    answers: {
      description: 'The endpoint.',
      schema: createdWebhookSchema,
      example: { ...exampleWebhook, secret: exampleSecret },
    },
    refusals: ['CONFLICT'],
    limits: ['settings_limit'],
    usesAccount: true,
    async handle(request, { store, http: { webhooks } }) {
      const { caller, now, at, body } = request;
      const url = await requirePublic(body.url, webhooks);
      const { account } = caller;
      const secret = newWebhookSecret();
      const id = `wh_${ulid(now)}`;
      const endpoint: WebhookEndpoint = {
        id,
        url,
        description: body.description,
        events: body.events,
        enabled: true,
        enabledAt: at,
        createdAt: at,
        secrets: [{ sealed: secretsOf(webhooks).seal(id, secret) }],
        quotaTold: await quotaToldNow(request, store),
      };
      await store.webhooks.changeWebhooks(account, addEndpoint(account, endpoint));
      return { ...presentWebhook(endpoint, now), secret };
    },
  }),
  /** All endpoints of the account, oldest first. */
  route({
    ...common,
    id: 'listWebhooks',
    method: 'GET',
    path: '/v1/webhooks',
    summary: 'List all webhook endpoints of the account',
    description: `Oldest first, all in one page. ${isOff}`,
    answers: {
      description: 'The endpoints.',
      schema: webhookListSchema,
      example: exampleList(exampleWebhook),
    },
    inTurns: true,
    async handle({ caller, now }, { store }) {
      const found = (await store.webhooks.findWebhooks(caller.account))?.endpoints ?? [];
      return presentList({ found, limit: found.length, present: (endpoint) => presentWebhook(endpoint, now) });
    },
  }),
  route({
    ...common,
    id: 'retrieveWebhook',
    method: 'GET',
    path: '/v1/webhooks/wh_:webhook',
    summary: 'Retrieve a webhook endpoint',
    answers: { description: 'The endpoint.', schema: webhookSchema, example: exampleWebhook },
    refusals: ['NOT_FOUND'],
    params,
    inTurns: true,
    async handle({ params, caller, now }, { store }) {
      const found = await store.webhooks.findWebhooks(caller.account);
      return presentWebhook(endpointIn(found, params.webhook), now);
    },
  }),
  /** Replaces the given fields. An endpoint that is enabled, or gets another address, begins without failures. */
  route({
    ...common,
    id: 'updateWebhook',
    method: 'PATCH',
    path: '/v1/webhooks/wh_:webhook',
    summary: 'Change a webhook endpoint',
    description: 'Replaces the fields that are sent. `enabled: true` also ends a pause after failures.',
    body: { schema: webhookChangeBody, example: { enabled: false } },
    answers: { description: 'The endpoint.', schema: webhookSchema, example: { ...exampleWebhook, enabled: false } },
    refusals: ['NOT_FOUND'],
    limits: ['settings_limit'],
    params,
    async handle(request, { store, http: { webhooks } }) {
      const { now, at } = request;
      const { webhook: id } = request.params;
      const { url: address, ...others } = request.body;
      const { account } = request.caller;
      endpointIn(await store.webhooks.findWebhooks(account), id);
      const given = { ...others, ...(address !== undefined && { url: await requirePublic(address, webhooks) }) };
      const quotaTold = await quotaToldNow(request, store);
      const change = (before: WebhookEndpoint) => changeFields(before, given, { now, quotaTold });
      const changed = await store.webhooks.changeWebhooks(account, changeEndpoint(id, change));
      if (given.enabled || given.url !== undefined)
        await makeDue(store.webhooks, { endpoint: id, account, now: at, isUrgent: true });
      return presentWebhook(changed, now);
    },
  }),
  /** Nothing is sent to it any more. A worker removes its deliveries. */
  route({
    ...common,
    id: 'deleteWebhook',
    method: 'DELETE',
    path: '/v1/webhooks/wh_:webhook',
    summary: 'Delete a webhook endpoint',
    description: 'Nothing is sent to it any more, and its deliveries are removed.',
    answers: {
      description: 'The endpoint is deleted.',
      schema: deletedWebhookSchema,
      example: { id: exampleWebhook.id, object: 'webhook_endpoint', deleted: true },
    },
    refusals: ['NOT_FOUND'],
    limits: ['settings_limit'],
    params,
    async handle({ params: { webhook: id }, caller: { account }, at }, { store }) {
      await store.webhooks.changeWebhooks(account, removeEndpoint(id));
      await makeDue(store.webhooks, { endpoint: id, account, now: at, isUrgent: true });
      return { id, object: 'webhook_endpoint' as const, deleted: true as const };
    },
  }),
  /** Shows the new secret only this once. The old one also signs for 24 hours. */
  route({
    ...common,
    id: 'rotateWebhookSecret',
    method: 'POST',
    path: '/v1/webhooks/wh_:webhook/rotate-secret',
    summary: 'Rotate the secret of a webhook endpoint',
    description: 'The new secret is shown only once. Events are signed with the old one, too, for 24 hours.',
    body: { schema: emptyObject, example: {} },
    answers: {
      description: 'The endpoint, with the new secret.',
      schema: createdWebhookSchema,
      example: { ...exampleWebhook, old_secrets_until: 1_767_312_000, secret: exampleSecret },
    },
    refusals: ['NOT_FOUND'],
    limits: ['settings_limit'],
    params,
    async handle({ params: { webhook: id }, caller, now }, { store, http: { webhooks } }) {
      const secret = newWebhookSecret();
      const sealed = secretsOf(webhooks).seal(id, secret);
      const changed = await store.webhooks.changeWebhooks(
        caller.account,
        changeEndpoint(id, (endpoint) => rotateSecret(endpoint, { sealed, now })),
      );
      return { ...presentWebhook(changed, now), secret };
    },
  }),
];

/** Fails with `VALIDATION_ERROR` for an address that events must not be sent to (contract.md#j4-webhook-addresses). */
async function requirePublic(text: string, { rules }: WebhookSupport): Promise<string> {
  try {
    const url = parseWebhookUrl(text, rules);
    await findPublicAddresses(url, rules);
    return url.href;
  } catch (error) {
    if (!(error instanceof WebhookAddressError)) throw error;
    throw validationError([{ path: 'url', message: error.message }]);
  }
}

async function quotaToldNow(
  { caller: { account }, at, planFile: { plans } }: Pick<RouteRequest<'signIn'>, 'caller' | 'at' | 'planFile'>,
  store: Pick<Store, 'accounts' | 'usage'>,
): Promise<WebhookEndpoint['quotaTold']> {
  const month = monthOf(at);
  return noteThresholds({}, month, reachedThresholds(await findQuotaUsage(store, { account, month, plans })));
}

type WebhookSupport = AppParts['http']['webhooks'];

function secretsOf({ secrets }: WebhookSupport): Pick<WebhookSecrets, 'seal'> {
  if (secrets === undefined) {
    throw new ApiError('FORBIDDEN', 'The operator of this service has not enabled webhooks.');
  }
  return secrets;
}

/** Fails with `FORBIDDEN` if the operator has not enabled webhooks. */
export function requireWebhooks({ http }: Pick<AppParts, 'http'>): void {
  secretsOf(http.webhooks);
}
