import type { Delivery, WebhookEndpoint } from '../../../shared/store/webhooks/webhook.ts';
import { secondsOf } from '../../api/present-file.ts';
import type { Webhook, WebhookDelivery } from './webhook-schemas.ts';

/** An endpoint as clients see it, without its secrets. `now` is Redis's time. */
export function presentWebhook(endpoint: WebhookEndpoint, now: number): Webhook {
  const { id, url, description, events, enabled, disabledReason, secrets, createdAt } = endpoint;
  const ends = secrets.flatMap(({ until }) => (until !== undefined && until.getTime() > now ? [until.getTime()] : []));
  return {
    id,
    object: 'webhook_endpoint',
    url,
    description,
    events,
    enabled,
    disabled_reason: disabledReason ?? null,
    old_secrets_until: ends.length === 0 ? null : secondsOf(new Date(Math.max(...ends))),
    created_at: secondsOf(createdAt),
  };
}

export function presentDelivery(delivery: Delivery): WebhookDelivery {
  const { event, endpoint, type, state, reason, attempts, attemptCount, nextAt, createdAt, payload } = delivery;
  return {
    id: event,
    object: 'webhook_delivery',
    webhook_id: endpoint,
    type,
    state,
    reason: reason ?? null,
    attempt_count: attemptCount,
    attempts: attempts.map(({ at, ms, status, error }) => ({
      at: secondsOf(at),
      ms,
      status: status ?? null,
      error: error ?? null,
    })),
    // A delivery that is due at once comes before all others.
    next_attempt_at: nextAt === undefined ? null : Math.max(secondsOf(nextAt), secondsOf(createdAt)),
    created_at: secondsOf(createdAt),
    payload: JSON.parse(payload),
  };
}
