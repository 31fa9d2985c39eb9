import { z } from 'zod';
import { storedDate as date } from '../../stored-values.ts';

/** OpenAI's names for batches. */
export const webhookEvents = [
  'batch.completed',
  'batch.failed',
  'batch.expired',
  'batch.cancelled',
  'quota.threshold',
  'key.expiring',
] as const;

export type WebhookEvent = (typeof webhookEvents)[number];

/** Sent on request, to any endpoint. */
export const testEvent = 'webhook.test';

/** A secret, encrypted. A secret that was rotated also signs, until `until`. */
const sealedSecretSchema = z.object({ sealed: z.string(), until: date.optional() });

const endpointSchema = z.object({
  id: z.string(),
  url: z.string(),
  description: z.string(),
  /** Events that a later release adds are kept. */
  events: z.array(z.string()),
  enabled: z.boolean(),
  enabledAt: date,
  disabledReason: z.enum(['failing', 'gone']).optional(),
  secrets: z.array(sealedSecretSchema).min(1),
  quotaTold: z.record(z.string(), z.int().nonnegative()),
  createdAt: date,
});

export const accountWebhooksSchema = z.object({
  account: z.string(),
  endpoints: z.array(endpointSchema),
  version: z.int().positive(),
});

/**
 * An address that gets events of an account. `secrets` have the current one first. `quotaTold` has, by month, the highest threshold of the
 * quota, in percent, that has an event or had passed before the endpoint subscribed. `enabledAt` is when it was last enabled, or got its
 * present address: failures before that do not count. `disabledReason` is set if the service disabled it.
 */
export type WebhookEndpoint = z.infer<typeof endpointSchema>;

/** All endpoints of an account, in one document, so that their number is bounded exactly. */
export type AccountWebhooks = z.infer<typeof accountWebhooksSchema>;

export const deliveryStates = ['waiting', 'delivered', 'failed'] as const;

export type DeliveryState = (typeof deliveryStates)[number];

/** `status` is that of the response, or `error` says why there was none. */
const attemptSchema = z.object({
  at: date,
  ms: z.int().nonnegative(),
  status: z.int().optional(),
  error: z.string().optional(),
});

export const deliverySchema = z.object({
  id: z.string(),
  event: z.string(),
  endpoint: z.string(),
  account: z.string(),
  type: z.string(),
  payload: z.string(),
  state: z.enum(deliveryStates),
  reason: z.string().optional(),
  attempts: z.array(attemptSchema),
  attemptCount: z.int().nonnegative(),
  retriedSince: date.optional(),
  nextAt: date.optional(),
  createdAt: date,
  version: z.int().positive(),
});

export type DeliveryAttempt = z.infer<typeof attemptSchema>;

/**
 * One event for one endpoint. `payload` is the body that is sent and signed. `nextAt` is set while it waits. `attempts` are the last ones,
 * oldest first. `retriedSince` is when the present series of failures began. A delivery that failed has a `reason`, and stays until it is
 * sent again.
 */
export type Delivery = z.infer<typeof deliverySchema>;

/** An event has one delivery for each endpoint, however often it is created. */
export function deliveryId(event: string, endpoint: string): string {
  return `${event}:${endpoint}`;
}

export const scheduleSchema = z.object({
  endpoint: z.string(),
  account: z.string(),
  dueAt: date.optional(),
  pausedUntil: date.optional(),
  failures: z.int().nonnegative(),
  failingSince: date.optional(),
  version: z.int().positive(),
});

/**
 * When an endpoint is due for deliveries; without `dueAt`, nothing waits. `failures` counts failed attempts since the last that succeeded,
 * and `failingSince` is the first of them.
 */
export type WebhookSchedule = z.infer<typeof scheduleSchema>;
