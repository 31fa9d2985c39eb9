import { ApiError } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { AddressRules } from '../../../shared/webhooks/webhook-address.ts';
import type { WebhookSecrets } from '../../../shared/webhooks/webhook-secrets.ts';
import { type AppContext, pathParameter, type Stage } from '../../request-state.ts';
import { noSuchWebhook } from './webhook-changes.ts';

/** `secrets` is undefined if the operator has not enabled webhooks. */
export type WebhookSupport = { secrets: Pick<WebhookSecrets, 'seal'> | undefined; rules: AddressRules };

export type WebhookDeps = {
  store: Pick<Store, 'accounts' | 'usage' | 'webhooks'>;
  webhooks: WebhookSupport;
};

const webhookId = /^wh_[0-9A-HJKMNP-TV-Z]{26}$/;

/** Fails with `FORBIDDEN` if the operator has not enabled webhooks. */
export function requireWebhooks({ webhooks }: Pick<WebhookDeps, 'webhooks'>): Stage {
  return async function requireWebhooks(_ctx, next) {
    secretsOf(webhooks);
    await next();
  };
}

export function secretsOf({ secrets }: WebhookSupport): Pick<WebhookSecrets, 'seal'> {
  if (secrets === undefined) {
    throw new ApiError('FORBIDDEN', 'The operator of this service has not enabled webhooks.');
  }
  return secrets;
}

/** The endpoint that the path names. */
export function wantedWebhook(ctx: AppContext): string {
  const id = `wh_${pathParameter(ctx, 'webhook')}`; // the prefix is part of the route
  if (!webhookId.test(id)) throw noSuchWebhook();
  return id;
}
