import type { AccountWebhooks, Delivery, DeliveryState, WebhookSchedule } from './webhook.ts';

/** A decision on a document. Without `next` it remains unchanged. */
export type DecideDocument<Kept, Result> = (kept: Kept | undefined) => { result: Result; next?: Kept };

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
  changeWebhooks<Result>(account: string, decide: DecideDocument<AccountWebhooks, Result>): Promise<Result>;

  /** Inserts each delivery once: an existing one remains unchanged. */
  insertDeliveries(deliveries: readonly Delivery[]): Promise<void>;
  findDelivery(id: string): Promise<Delivery | undefined>;
  /** Lists deliveries of an endpoint, newest first, after the delivery with the id `after`. None if that is unknown. */
  listDeliveries(endpoint: string, page: DeliveryPage): Promise<Delivery[]>;
  /** Lists deliveries that wait, ordered by `nextAt`. */
  listWaiting(endpoint: string, limit: number): Promise<Delivery[]>;
  /** Counts deliveries that wait, up to `max`. */
  countWaiting(endpoint: string, max: number): Promise<number>;
  changeDelivery<Result>(id: string, decide: DecideDocument<Delivery, Result>): Promise<Result>;
  /** Removes up to `limit` deliveries of an endpoint; returns how many. */
  removeDeliveries(endpoint: string, limit: number): Promise<number>;
  /** Removes up to `limit` deliveries created before this time; returns how many. */
  removeDeliveriesBefore(at: Date, limit: number): Promise<number>;

  findSchedule(endpoint: string): Promise<WebhookSchedule | undefined>;
  changeSchedule<Result>(endpoint: string, decide: DecideDocument<WebhookSchedule, Result>): Promise<Result>;
  removeSchedule(endpoint: string): Promise<void>;
  /** Lists schedules that are due at this time, the longest due first, after this one. */
  listDueSchedules(at: Date, page: DuePage): Promise<WebhookSchedule[]>;
}
