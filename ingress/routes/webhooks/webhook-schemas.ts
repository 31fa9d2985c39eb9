import { z } from 'zod';
import { deliveryStates } from '../../../shared/store/webhooks/webhook.ts';

/** Schemas of the responses about webhooks, for the documentation and the console. */

const count = z.int().nonnegative();
const seconds = count.meta({ description: 'Seconds since 1970, UTC.' });

export const webhook = z.strictObject({
  id: z.string(),
  object: z.literal('webhook_endpoint'),
  url: z.string(),
  description: z.string(),
  events: z.array(z.string()),
  enabled: z.boolean(),
  disabled_reason: z.enum(['failing', 'gone']).nullable().meta({
    description:
      'Why the service has disabled it: no attempt of three days has succeeded, or the receiver answered 410.',
  }),
  old_secrets_until: seconds
    .nullable()
    .meta({ description: 'Until when events are also signed with secrets that were rotated.' }),
  created_at: seconds,
});
export const createdWebhook = webhook.extend({
  secret: z.string().meta({ description: 'The secret that events are signed with, only this once.' }),
});
export const webhookList = z.strictObject({
  object: z.literal('list'),
  data: z.array(webhook),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
export const deletedWebhook = z.strictObject({
  id: z.string(),
  object: z.literal('webhook_endpoint'),
  deleted: z.literal(true),
});

const attempt = z.strictObject({
  at: seconds,
  ms: count.meta({ description: 'How long it took, in milliseconds.' }),
  status: z.int().nullable().meta({ description: "The status of the receiver's answer; null: there was none." }),
  error: z.string().nullable().meta({ description: 'Why there was no answer.' }),
});

export const delivery = z.strictObject({
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
});
export const deliveryList = webhookList.extend({ data: z.array(delivery) });

export type Webhook = z.infer<typeof webhook>;
export type CreatedWebhook = z.infer<typeof createdWebhook>;
export type WebhookList = z.infer<typeof webhookList>;
export type WebhookDelivery = z.infer<typeof delivery>;
export type WebhookDeliveryList = z.infer<typeof deliveryList>;
