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

/**
 * Webhook endpoints, the deliveries of events to them, and when each endpoint is due (contract.md#j2-events). Each `change…` changes one
 * document atomically: `next` is written only if the document has not changed since `decide` read it; otherwise `decide` is called again.
 * It is written with the next `version`, and creates the document if there is none.
 */
export interface WebhookStore {
  findWebhooks(account: string): Promise<AccountWebhooks | undefined>;
  /** Finds those of all these accounts that have any. */
  findWebhooksOf(accounts: readonly string[]): Promise<AccountWebhooks[]>;
  /** Lists accounts that have endpoints, in order of their ids. */
  listWebhooks(page: { after: string; limit: number }): Promise<AccountWebhooks[]>;
  changeWebhooks<Result>(account: string, decide: Decide<AccountWebhooks, Result>): Promise<Result>;

  /** Inserts each delivery once: an existing one remains unchanged. */
  insertDeliveries(deliveries: readonly Delivery[]): Promise<void>;
  findDelivery(id: string): Promise<Delivery | undefined>;
  /** Lists deliveries of an endpoint, newest first, after the delivery with the id `after`. None if that is unknown. */
  listDeliveries(endpoint: string, page: DeliveryPage): Promise<Delivery[]>;
  /** Lists deliveries that wait, ordered by `nextAt`. */
  listWaiting(endpoint: string, limit: number): Promise<Delivery[]>;
  /** Counts deliveries that wait, up to `max`. */
  countWaiting(endpoint: string, max: number): Promise<number>;
  changeDelivery<Result>(id: string, decide: Decide<Delivery, Result>): Promise<Result>;
  /** Removes up to `limit` deliveries of an endpoint; returns how many, 0 once there are none. */
  removeDeliveries(endpoint: string, limit: number): Promise<number>;
  /** Removes up to `limit` deliveries created before this time; returns how many, 0 once there are none. */
  removeDeliveriesBefore(at: Date, limit: number): Promise<number>;

  findSchedule(endpoint: string): Promise<WebhookSchedule | undefined>;
  changeSchedule<Result>(endpoint: string, decide: Decide<WebhookSchedule, Result>): Promise<Result>;
  removeSchedule(endpoint: string): Promise<void>;
  /** Lists schedules that are due at this time, the longest due first, after this one. */
  listDueSchedules(at: Date, page: DuePage): Promise<WebhookSchedule[]>;
}

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

export function createWebhookStore(open: OpenDocuments): WebhookStore {
  const [webhooks, schedules] = [open(webhooksOf), open(schedulesOf)];
  return {
    findWebhooks: webhooks.find,
    findWebhooksOf: async (accounts) => [...(await webhooks.findAll(accounts)).values()],
    listWebhooks: ({ after, limit }) => webhooks.list('id', { after: { account: after }, limit }),
    changeWebhooks: (account, decide) => webhooks.change(account, withNextVersion(decide)),

    ...createDeliveries(open),

    findSchedule: schedules.find,
    changeSchedule: (endpoint, decide) => schedules.change(endpoint, withNextVersion(decide)),
    removeSchedule: (endpoint) => schedules.remove([endpoint]),
    listDueSchedules: (at, page) => schedules.list('due', { to: at, ...page }),
  };
}

/** Without a time, a document is not in a range of times. */
const sinceEver = new Date(0);

function createDeliveries(open: OpenDocuments) {
  const deliveries = open(deliveriesOf);
  return {
    insertDeliveries: async (inserted) => void (await deliveries.insert(inserted)),
    findDelivery: deliveries.find,

    async listDeliveries(endpoint, { limit, after: id, state }) {
      const after = id === undefined ? undefined : await deliveries.find(id);
      if (id !== undefined && after?.endpoint !== endpoint) return [];
      const page = { after, order: 'desc', limit } as const;
      if (state === undefined) return deliveries.list('byTime', { is: [endpoint], ...page });
      return deliveries.list('byState', { is: [endpoint, state], ...page });
    },

    listWaiting: (endpoint, limit) => deliveries.list('waiting', { is: [endpoint], from: sinceEver, limit }),

    async countWaiting(endpoint, limit) {
      return (await deliveries.listFields('waiting', ['id'], { is: [endpoint], from: sinceEver, limit })).length;
    },

    changeDelivery: (id, decide) => deliveries.change(id, withNextVersion(decide)),
    removeDeliveries: (endpoint, limit) => deliveries.removeSome('byTime', { is: [endpoint], limit }),
    removeDeliveriesBefore: (at, limit) => deliveries.removeSome('byAge', { before: at, limit }),
  } satisfies Partial<WebhookStore>;
}
