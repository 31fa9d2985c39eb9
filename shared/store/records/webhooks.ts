import { z } from 'zod';
import { storedDate as date } from '../../json/stored-values.ts';
import { type Collection, type Decide, type OpenDocuments, withNextVersion } from '../documents.ts';

/** Every type of events. Batches have OpenAI's names. */
export const webhookEvents = [
  'batch.completed',
  'batch.failed',
  'batch.expired',
  'batch.cancelled',
  'quota.threshold',
  'key.expiring',
] as const;

export type WebhookEvent = (typeof webhookEvents)[number];

/** How long a delivery is tried, and every attempt may fail before its endpoint is disabled. */
export const failingTime = { days: 3, text: 'three days' } as const;

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

const accountWebhooksSchema = z.object({
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

type DeliveryState = (typeof deliveryStates)[number];

/** `status` is that of the response, or `error` says why there was none. */
const attemptSchema = z.object({
  at: date,
  ms: z.int().nonnegative(),
  status: z.int().optional(),
  error: z.string().optional(),
});

const deliverySchema = z.object({
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

const scheduleSchema = z.object({
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

type DeliveryPage = { limit: number; after?: string | undefined; state?: DeliveryState | undefined };

type DuePage = { limit: number; after?: WebhookSchedule | undefined };

const webhooksOf = { name: 'webhooks', schema: accountWebhooksSchema, id: 'account', indexes: {} } as const;

const deliveriesOf = {
  name: 'webhook_deliveries',
  schema: deliverySchema,
  id: 'id',
  indexes: {
    byTime: { fields: ['endpoint', 'createdAt'] },
    byState: { fields: ['endpoint', 'state', 'createdAt'] },
    waiting: { fields: ['endpoint', 'nextAt'] },
    byAge: { fields: ['createdAt'] },
  },
} as const satisfies Collection;

const schedulesOf = {
  name: 'webhook_schedules',
  schema: scheduleSchema,
  id: 'endpoint',
  indexes: { due: { fields: ['dueAt'] } },
} as const satisfies Collection;

export const webhookCollections = [webhooksOf, deliveriesOf, schedulesOf];

/**
 * Webhook endpoints, the deliveries of events to them, and when each endpoint is due (contract.md#j2-events). Each `change…` changes one
 * document atomically: `next` is written only if the document has not changed since `decide` read it; otherwise `decide` is called again.
 * It is written with the next `version`, and creates the document if there is none.
 */
export function createWebhookStore(open: OpenDocuments) {
  const [webhooks, schedules] = [open(webhooksOf), open(schedulesOf)];
  return {
    findWebhooks: webhooks.find,
    /** Finds those of all these accounts that have any. */
    findWebhooksOf: async (accounts: readonly string[]): Promise<AccountWebhooks[]> => [
      ...(await webhooks.findAll(accounts)).values(),
    ],
    /** Lists accounts that have endpoints, in order of their ids. */
    listWebhooks: ({ after, limit }: { after: string; limit: number }): Promise<AccountWebhooks[]> =>
      webhooks.list('id', { after: { account: after }, limit }),
    changeWebhooks: <Result>(account: string, decide: Decide<AccountWebhooks, Result>): Promise<Result> =>
      webhooks.change(account, withNextVersion(decide)),

    ...createDeliveries(open),

    findSchedule: schedules.find,
    changeSchedule: <Result>(endpoint: string, decide: Decide<WebhookSchedule, Result>): Promise<Result> =>
      schedules.change(endpoint, withNextVersion(decide)),
    removeSchedule: (endpoint: string): Promise<void> => schedules.remove([endpoint]),
    /** Lists schedules that are due at this time, the longest due first, after this one. */
    listDueSchedules: (at: Date, page: DuePage): Promise<WebhookSchedule[]> =>
      schedules.list('due', { to: at, ...page }),
  };
}

export type WebhookStore = ReturnType<typeof createWebhookStore>;

/** Without a time, a document is not in a range of times. */
const sinceEver = new Date(0);

function createDeliveries(open: OpenDocuments) {
  const deliveries = open(deliveriesOf);
  return {
    /** Inserts each delivery once: an existing one remains unchanged. */
    insertDeliveries: async (inserted: readonly Delivery[]): Promise<void> => void (await deliveries.insert(inserted)),
    findDelivery: deliveries.find,

    /** Lists deliveries of an endpoint, newest first, after the delivery with the id `after`. None if that is unknown. */
    async listDeliveries(endpoint: string, { limit, after: id, state }: DeliveryPage): Promise<Delivery[]> {
      const after = id === undefined ? undefined : await deliveries.find(id);
      if (id !== undefined && after?.endpoint !== endpoint) return [];
      const page = { after, order: 'desc', limit } as const;
      if (state === undefined) return deliveries.list('byTime', { is: [endpoint], ...page });
      return deliveries.list('byState', { is: [endpoint, state], ...page });
    },

    /** Lists deliveries that wait, ordered by `nextAt`. */
    listWaiting: (endpoint: string, limit: number): Promise<Delivery[]> =>
      deliveries.list('waiting', { is: [endpoint], from: sinceEver, limit }),

    /** Counts deliveries that wait, up to `max`. */
    async countWaiting(endpoint: string, limit: number): Promise<number> {
      return (await deliveries.listFields('waiting', ['id'], { is: [endpoint], from: sinceEver, limit })).length;
    },

    changeDelivery: <Result>(id: string, decide: Decide<Delivery, Result>): Promise<Result> =>
      deliveries.change(id, withNextVersion(decide)),
    /** Removes up to `limit` deliveries of an endpoint; returns how many, 0 once there are none. */
    removeDeliveries: (endpoint: string, limit: number): Promise<number> =>
      deliveries.removeSome('byTime', { is: [endpoint], limit }),
    /** Removes up to `limit` deliveries created before this time; returns how many, 0 once there are none. */
    removeDeliveriesBefore: (at: Date, limit: number): Promise<number> =>
      deliveries.removeSome('byAge', { before: at, limit }),
  };
}
