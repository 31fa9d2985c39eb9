import { z } from 'zod';
import {
  type Delivery,
  deliveryStates,
  failingTime,
  type WebhookEndpoint,
} from '../../shared/store/records/webhooks.ts';
import { listOf } from '../api/lists.ts';
import { count, seconds, secondsOf } from '../api/response-fields.ts';
import { named } from '../api/route.ts';

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

export const webhookSchema = named(
  'Webhook',
  z.strictObject({
    id: z.string(),
    object: z.literal('webhook_endpoint'),
    url: z.string(),
    description: z.string(),
    events: z.array(z.string()),
    enabled: z.boolean(),
    disabled_reason: z
      .enum(['failing', 'gone'])
      .nullable()
      .meta({
        description: `Why the service has disabled it: no attempt of ${failingTime.text} has succeeded, or the receiver answered 410.`,
      }),
    old_secrets_until: seconds
      .nullable()
      .meta({ description: 'Until when events are also signed with secrets that were rotated.' }),
    created_at: seconds,
  }),
);
export const createdWebhookSchema = named(
  'CreatedWebhook',
  webhookSchema.extend({
    secret: z.string().meta({ description: 'The secret that events are signed with, only this once.' }),
  }),
);
export const webhookListSchema = named('WebhookList', listOf(webhookSchema));
export const deletedWebhookSchema = named(
  'DeletedWebhook',
  z.strictObject({
    id: z.string(),
    object: z.literal('webhook_endpoint'),
    deleted: z.literal(true),
  }),
);

const attempt = z.strictObject({
  at: seconds,
  ms: count.meta({ description: 'How long it took, in milliseconds.' }),
  status: z.int().nullable().meta({ description: "The status of the receiver's answer; null: there was none." }),
  error: z.string().nullable().meta({ description: 'Why there was no answer.' }),
});

export const deliverySchema = named(
  'WebhookDelivery',
  z.strictObject({
    id: z.string().meta({ description: 'The id of the event, as in its body and in the header `webhook-id`.' }),
    object: z.literal('webhook_delivery'),
    webhook_id: z.string().meta({ description: 'The endpoint.' }),
    type: z.string(),
    state: z.enum(deliveryStates),
    reason: z.string().nullable().meta({ description: 'Why it failed for good.' }),
    attempt_count: count,
    attempts: z.array(attempt).meta({ description: 'The last 20, oldest first.' }),
    next_attempt_at: seconds.nullable(),
    created_at: seconds,
    payload: z.record(z.string(), z.unknown()).meta({ description: 'The body that is sent.' }),
  }),
);
export const deliveryListSchema = named(
  'WebhookDeliveryList',
  webhookListSchema.extend({ data: z.array(deliverySchema) }),
);

export type Webhook = z.infer<typeof webhookSchema>;
export type CreatedWebhook = z.infer<typeof createdWebhookSchema>;
export type WebhookList = z.infer<typeof webhookListSchema>;
export type WebhookDelivery = z.infer<typeof deliverySchema>;
