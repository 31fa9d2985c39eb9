import { ApiError } from '../../../shared/errors.ts';
import { type Delivery, deliveryId, testEvent, type WebhookEndpoint } from '../../../shared/store/webhooks/webhook.ts';
import { makeDue, sendEvents, toSendAgain } from '../../../shared/webhooks/send-events.ts';
import { eventOf } from '../../../shared/webhooks/webhook-event.ts';
import { parseBody } from '../../api/json-body.ts';
import { parseQuery } from '../../api/list-query.ts';
import { presentList } from '../../api/present-list.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../../request-state.ts';
import { emptyObject } from '../keys/developer-keys.ts';
import { presentDelivery } from './present-webhook.ts';
import { endpointIn } from './webhook-changes.ts';
import { deliveriesQuery, eventId } from './webhook-fields.ts';
import { type WebhookDeps, wantedWebhook } from './webhook-support.ts';

/** An endpoint gets at most one test in this time, so that tests do not fill the store. */
const testEveryMs = 10_000;

/**
 * `POST /v1/webhooks/{id}/test`: a worker sends an event within about a second. Answers with its delivery, which waits. Repeated within ten
 * seconds, it is the same delivery.
 */
export function testWebhook({ store }: WebhookDeps): Stage {
  return async function testWebhook(ctx) {
    parseBody(emptyObject, stateOf(ctx, 'body'));
    const endpoint = await findEnabled(ctx, store);
    const { account } = stateOf(ctx, 'caller');
    const now = stateOf(ctx, 'now');
    const what = [endpoint.id, String(Math.floor(now / testEveryMs))];
    const event = eventOf({ account, type: testEvent, at: new Date(now), what, data: { id: endpoint.id } });
    const sending = { endpoint: endpoint.id, events: [event], now: new Date(now), isUrgent: true };
    await sendEvents(store.webhooks, sending);
    const delivery = await store.webhooks.findDelivery(deliveryId(event.id, endpoint.id));
    if (delivery === undefined) throw noSuchDelivery(); // the endpoint was deleted at the same time
    ctx.body = presentDelivery(delivery);
  };
}

/** `GET /v1/webhooks/{id}/deliveries`: those of the last 30 days, newest first. */
export function listDeliveries({ store }: WebhookDeps): Stage {
  return async function listDeliveries(ctx) {
    const { limit, after, state } = parseQuery(deliveriesQuery, ctx.querystring);
    const { id } = await findWebhook(ctx, store);
    const page = { limit: limit + 1, after: after && deliveryId(after, id), state };
    const found = await store.webhooks.listDeliveries(id, page);
    ctx.body = presentList({ found, limit, present: presentDelivery });
  };
}

/** `POST /v1/webhooks/{id}/deliveries/{event}/retry`: sends an event again, also one that was delivered. */
export function retryDelivery({ store }: WebhookDeps): Stage {
  return async function retryDelivery(ctx) {
    parseBody(emptyObject, stateOf(ctx, 'body'));
    const event = wantedEvent(ctx);
    const { id: endpoint } = await findEnabled(ctx, store);
    const { account } = stateOf(ctx, 'caller');
    const delivery = await store.webhooks.changeDelivery(deliveryId(event, endpoint), sendAgain);
    const now = new Date(stateOf(ctx, 'now'));
    await makeDue(store.webhooks, { endpoint, account, now, isUrgent: true });
    ctx.body = presentDelivery(delivery);
  };
}

function sendAgain(found: Delivery | undefined): { result: Delivery; next: Delivery } {
  if (found === undefined) throw noSuchDelivery();
  const next = toSendAgain(found);
  return { result: next, next };
}

async function findWebhook(ctx: AppContext, store: WebhookDeps['store']): Promise<WebhookEndpoint> {
  const id = wantedWebhook(ctx);
  return endpointIn(await store.webhooks.findWebhooks(stateOf(ctx, 'caller').account), id);
}

/** Fails with `CONFLICT` if the endpoint is disabled. */
async function findEnabled(ctx: AppContext, store: WebhookDeps['store']): Promise<WebhookEndpoint> {
  const endpoint = await findWebhook(ctx, store);
  if (!endpoint.enabled) throw new ApiError('CONFLICT', 'The webhook endpoint is disabled. Enable it first.');
  return endpoint;
}

function wantedEvent(ctx: AppContext): string {
  const id = `evt_${pathParameter(ctx, 'event')}`; // the prefix is part of the route
  if (!eventId.test(id)) throw noSuchDelivery();
  return id;
}

function noSuchDelivery(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such delivery.');
}
