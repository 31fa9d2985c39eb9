import { createHash } from 'node:crypto';
import {
  type Delivery,
  deliveryId,
  type testEvent,
  type WebhookEndpoint,
  type WebhookEvent,
  type WebhookSchedule,
  type WebhookStore,
} from '../store/records/webhooks.ts';

/** Beyond this, events of an endpoint that is down or slow fail at once. */
const waitingMax = 10_000;
/** Before all others that wait. */
const firstOfAll = new Date(1);
const isFull = 'too many deliveries to this endpoint waited';

export type SendStore = Pick<WebhookStore, 'countWaiting' | 'insertDeliveries' | 'changeSchedule'>;

/** Returns whether an endpoint gets events of this type. */
export function isSubscribed({ enabled, events }: WebhookEndpoint, type: string): boolean {
  return enabled && events.includes(type);
}

/**
 * Stores the deliveries of events to one endpoint, then makes it due. An event that was sent before is not sent again, so that a call that
 * failed, or whose process ended, can be repeated. `isUrgent`: also during a
 * pause after failures, and before all that wait.
 */
export async function sendEvents(
  store: SendStore,
  {
    endpoint,
    events,
    now,
    isUrgent = false,
  }: {
    endpoint: string;
    events: readonly AccountEvent[];
    now: Date;
    isUrgent?: boolean;
  },
): Promise<Delivery[]> {
  const account = events[0]?.account;
  if (account === undefined) return [];
  const room = waitingMax - (await store.countWaiting(endpoint, waitingMax));
  const deliveries = events.map((event, index) => deliveryOf(event, { endpoint, now, fits: index < room, isUrgent }));
  await store.insertDeliveries(deliveries);
  await makeDue(store, { endpoint, account, now, isUrgent });
  return deliveries;
}

/** Makes an endpoint due: at once if `isUrgent`, else after its pause. */
export async function makeDue(
  store: Pick<WebhookStore, 'changeSchedule'>,
  { endpoint, account, now, isUrgent }: { endpoint: string; account: string; now: Date; isUrgent: boolean },
): Promise<void> {
  await store.changeSchedule(endpoint, (found) => ({
    result: undefined,
    next: dueSchedule(found ?? { endpoint, account, failures: 0, version: 1 }, { now, isUrgent }),
  }));
}

/** A schedule that is due already changes, too: a worker that has just seen no delivery must look again. */
function dueSchedule(schedule: WebhookSchedule, { now, isUrgent }: { now: Date; isUrgent: boolean }): WebhookSchedule {
  const { pausedUntil, dueAt, ...others } = schedule;
  if (isUrgent) return { ...others, dueAt: earlier(dueAt, now) };
  const due = pausedUntil !== undefined && pausedUntil > now ? pausedUntil : now;
  return { ...others, ...(pausedUntil && { pausedUntil }), dueAt: earlier(dueAt, due) };
}

/** Returns a delivery that is to be sent again, before all others, as if it had not been sent. */
export function toSendAgain(delivery: Delivery): Delivery {
  const { reason: _, retriedSince: __, ...others } = delivery;
  return { ...others, state: 'waiting', nextAt: firstOfAll };
}

/** Returns whether a delivery is sent before all others, also during a pause. */
export function isUrgent(delivery: Delivery | undefined): boolean {
  return delivery?.nextAt?.getTime() === firstOfAll.getTime();
}

function earlier(one: Date | undefined, other: Date): Date {
  return one !== undefined && one < other ? one : other;
}

type Placement = { endpoint: string; now: Date; fits: boolean; isUrgent: boolean };

function deliveryOf(event: AccountEvent, { endpoint, now, fits, isUrgent }: Placement): Delivery {
  return {
    id: deliveryId(event.id, endpoint),
    event: event.id,
    endpoint,
    account: event.account,
    type: event.type,
    payload: payloadOf(event),
    ...(fits ? { state: 'waiting', nextAt: isUrgent ? firstOfAll : now } : { state: 'failed', reason: isFull }),
    attempts: [],
    attemptCount: 0,
    createdAt: now,
    version: 1,
  };
}

/** An event of an account. `at` is when it happened. */
export type AccountEvent = {
  id: string;
  account: string;
  type: WebhookEvent | typeof testEvent;
  at: Date;
  data: Readonly<Record<string, unknown>>;
};

const idLength = 32;

/** Creates an event whose id is a hash of its account, its type and `what` happened: the same one has the same id, in every process. */
export function eventOf({ what, ...event }: Omit<AccountEvent, 'id'> & { what: readonly string[] }): AccountEvent {
  const named = JSON.stringify([event.account, event.type, ...what]);
  const id = `evt_${createHash('sha256').update(named).digest('hex').slice(0, idLength)}`;
  return { ...event, id };
}

/** The payload of its deliveries, as OpenAI has it. */
export function payloadOf({ id, type, at, data }: AccountEvent): string {
  return JSON.stringify({ id, object: 'event', created_at: Math.floor(at.getTime() / 1_000), type, data });
}
