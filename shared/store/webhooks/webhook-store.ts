import { type Collection, type Decide, type OpenDocuments, withNextVersion } from '../documents/documents.ts';
import {
  type AccountWebhooks,
  accountWebhooksSchema,
  type Delivery,
  type DeliveryState,
  deliverySchema,
  scheduleSchema,
  type WebhookSchedule,
} from './webhook.ts';

export type DeliveryPage = { limit: number; after?: string | undefined; state?: DeliveryState | undefined };

export type DuePage = { limit: number; after?: WebhookSchedule | undefined };

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
