import { ulid } from 'ulid';
import { validationError } from '../../../shared/errors.ts';
import { monthOf } from '../../../shared/store/accounts/account.ts';
import type { WebhookEndpoint } from '../../../shared/store/webhooks/webhook.ts';
import { findQuotaUsage, noteThresholds, reachedThresholds } from '../../../shared/webhooks/quota-thresholds.ts';
import { makeDue } from '../../../shared/webhooks/send-events.ts';
import { findPublicAddresses, parseWebhookUrl, WebhookAddressError } from '../../../shared/webhooks/webhook-address.ts';
import { newWebhookSecret } from '../../../shared/webhooks/webhook-secrets.ts';
import { parseBody } from '../../api/json-body.ts';
import { presentList } from '../../api/present-list.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';
import { emptyObject } from '../keys/developer-keys.ts';
import { presentWebhook } from './present-webhook.ts';
import {
  addEndpoint,
  changeEndpoint,
  changeFields,
  endpointIn,
  removeEndpoint,
  rotateSecret,
} from './webhook-changes.ts';
import { newWebhookBody, webhookChangeBody } from './webhook-fields.ts';
import { secretsOf, type WebhookDeps, type WebhookSupport, wantedWebhook } from './webhook-support.ts';

/** `POST /v1/webhooks`: creates an endpoint, and shows its secret only this once (contract.md#j3-deliveries). */
export function createWebhook({ store, webhooks }: WebhookDeps): Stage {
  return async function createWebhook(ctx) {
    const body = parseBody(newWebhookBody, stateOf(ctx, 'body'));
    const url = await requirePublic(body.url, webhooks);
    const now = stateOf(ctx, 'now');
    const { account } = stateOf(ctx, 'caller');
    const secret = newWebhookSecret();
    const id = `wh_${ulid(now)}`;
    const endpoint: WebhookEndpoint = {
      id,
      url,
      description: body.description,
      events: body.events,
      enabled: true,
      enabledAt: new Date(now),
      createdAt: new Date(now),
      secrets: [{ sealed: secretsOf(webhooks).seal(id, secret) }],
      quotaTold: await quotaToldNow(ctx, store),
    };
    await store.webhooks.changeWebhooks(account, addEndpoint(account, endpoint));
    ctx.body = { ...presentWebhook(endpoint, now), secret };
  };
}

/** `GET /v1/webhooks`: all endpoints of the account, oldest first. */
export function listWebhooks({ store }: WebhookDeps): Stage {
  return async function listWebhooks(ctx) {
    const now = stateOf(ctx, 'now');
    const found = (await store.webhooks.findWebhooks(stateOf(ctx, 'caller').account))?.endpoints ?? [];
    ctx.body = presentList({ found, limit: found.length, present: (endpoint) => presentWebhook(endpoint, now) });
  };
}

/** `GET /v1/webhooks/{id}`. */
export function retrieveWebhook({ store }: WebhookDeps): Stage {
  return async function retrieveWebhook(ctx) {
    const found = await store.webhooks.findWebhooks(stateOf(ctx, 'caller').account);
    ctx.body = presentWebhook(endpointIn(found, wantedWebhook(ctx)), stateOf(ctx, 'now'));
  };
}

/** `PATCH /v1/webhooks/{id}`: replaces the given fields. An endpoint that is enabled, or gets another address, begins without failures. */
export function updateWebhook({ store, webhooks }: WebhookDeps): Stage {
  return async function updateWebhook(ctx) {
    const id = wantedWebhook(ctx);
    const { url: address, ...others } = parseBody(webhookChangeBody, stateOf(ctx, 'body'));
    const { account } = stateOf(ctx, 'caller');
    endpointIn(await store.webhooks.findWebhooks(account), id);
    const given = { ...others, ...(address !== undefined && { url: await requirePublic(address, webhooks) }) };
    const now = stateOf(ctx, 'now');
    const quotaTold = await quotaToldNow(ctx, store);
    const change = (before: WebhookEndpoint) => changeFields(before, given, { now, quotaTold });
    const changed = await store.webhooks.changeWebhooks(account, changeEndpoint(id, change));
    if (given.enabled || given.url !== undefined)
      await makeDue(store.webhooks, { endpoint: id, account, now: new Date(now), isUrgent: true });
    ctx.body = presentWebhook(changed, now);
  };
}

/** `DELETE /v1/webhooks/{id}`: nothing is sent to it any more. A worker removes its deliveries. */
export function deleteWebhook({ store }: WebhookDeps): Stage {
  return async function deleteWebhook(ctx) {
    const id = wantedWebhook(ctx);
    const { account } = stateOf(ctx, 'caller');
    await store.webhooks.changeWebhooks(account, removeEndpoint(id));
    const now = new Date(stateOf(ctx, 'now'));
    await makeDue(store.webhooks, { endpoint: id, account, now, isUrgent: true });
    ctx.body = { id, object: 'webhook_endpoint', deleted: true };
  };
}

/** `POST /v1/webhooks/{id}/rotate-secret`: shows the new secret only this once. The old one also signs for 24 hours. */
export function rotateWebhookSecret({ store, webhooks }: WebhookDeps): Stage {
  return async function rotateWebhookSecret(ctx) {
    parseBody(emptyObject, stateOf(ctx, 'body'));
    const id = wantedWebhook(ctx);
    const now = stateOf(ctx, 'now');
    const secret = newWebhookSecret();
    const sealed = secretsOf(webhooks).seal(id, secret);
    const changed = await store.webhooks.changeWebhooks(
      stateOf(ctx, 'caller').account,
      changeEndpoint(id, (endpoint) => rotateSecret(endpoint, { sealed, now })),
    );
    ctx.body = { ...presentWebhook(changed, now), secret };
  };
}

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

async function quotaToldNow(ctx: AppContext, store: WebhookDeps['store']): Promise<WebhookEndpoint['quotaTold']> {
  const { account } = stateOf(ctx, 'caller');
  const month = monthOf(new Date(stateOf(ctx, 'now')));
  const { plans } = stateOf(ctx, 'planFile');
  return noteThresholds({}, month, reachedThresholds(await findQuotaUsage(store, { account, month, plans })));
}
