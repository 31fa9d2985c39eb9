import { ApiError } from '../../shared/errors.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { type Delivery, deliveryId, testEvent, type WebhookEndpoint } from '../../shared/store/records/webhooks.ts';
import { eventOf, makeDue, sendEvents, toSendAgain } from '../../shared/webhooks/send-events.ts';
import { exampleList, presentList } from '../api/lists.ts';
import { type Route, type RouteRequest, route } from '../api/route.ts';
import { emptyObject } from './developer-keys.ts';
import { deliveryListSchema, deliverySchema, presentDelivery } from './present-webhook.ts';
import { deliveriesQuery, endpointIn, eventId } from './webhook-changes.ts';
import { exampleWebhook, requireWebhooks, webhookParameter } from './webhooks.ts';

/** An endpoint gets at most one test in this time, so that tests do not fill the store. */
const testEveryMs = 10_000;

const exampleEvent = {
  id: 'evt_5f1c0a7be2d94c3f8a60d1b2c3e4f506',
  object: 'event',
  created_at: 1_767_225_660,
  type: 'batch.completed',
  data: { id: 'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXB' },
} as const;

const exampleDelivery = {
  id: exampleEvent.id,
  object: 'webhook_delivery',
  webhook_id: exampleWebhook.id,
  type: exampleEvent.type,
  state: 'delivered',
  reason: null,
  attempt_count: 1,
  attempts: [{ at: 1_767_225_661, ms: 84, status: 204, error: null }],
  next_attempt_at: null,
  created_at: 1_767_225_660,
  payload: exampleEvent,
} as const;

const exampleWaiting = { ...exampleDelivery, state: 'waiting', next_attempt_at: 1_767_225_660 } as const;

const params = { webhook: webhookParameter };

const common = { access: 'signIn', tag: 'Webhooks', noStore: true, guard: requireWebhooks } as const;

export const webhookDeliveryRoutes: readonly Route[] = [
  /**
   * A worker sends an event within about a second. Answers with its delivery, which waits. Repeated within ten
   * seconds, it is the same delivery.
   */
  route({
    ...common,
    id: 'testWebhook',
    method: 'POST',
    path: '/v1/webhooks/wh_:webhook/test',
    summary: 'Send a test event',
    description:
      'Sends an event of the type `webhook.test` within about a second. Repeated within ten seconds, it is the same event. `CONFLICT` if the endpoint is disabled.',
    body: { schema: emptyObject, example: {} },
    answers: {
      description: 'Its delivery, which usually still waits.',
      schema: deliverySchema,
      example: { ...exampleWaiting, attempt_count: 0, attempts: [] },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    limits: ['settings_limit'],
    params,
    async handle(request, { store }) {
      const { caller, now, at } = request;
      const endpoint = await findEnabled(request, store);
      const { account } = caller;
      const what = [endpoint.id, String(Math.floor(now / testEveryMs))];
      const event = eventOf({ account, type: testEvent, at, what, data: { id: endpoint.id } });
      const sending = { endpoint: endpoint.id, events: [event], now: at, isUrgent: true };
      await sendEvents(store.webhooks, sending);
      const delivery = await store.webhooks.findDelivery(deliveryId(event.id, endpoint.id));
      if (delivery === undefined) throw noSuchDelivery(); // the endpoint was deleted at the same time
      return presentDelivery(delivery);
    },
  }),
  /** Those of the last 30 days, newest first. */
  route({
    ...common,
    id: 'listWebhookDeliveries',
    method: 'GET',
    path: '/v1/webhooks/wh_:webhook/deliveries',
    summary: 'List the deliveries to a webhook endpoint',
    description: 'Those of the last 30 days, newest first.',
    query: deliveriesQuery,
    answers: {
      description: 'A page of deliveries.',
      schema: deliveryListSchema,
      example: exampleList(exampleDelivery),
    },
    refusals: ['NOT_FOUND'],
    params,
    inTurns: true,
    async handle(request, { store }) {
      const { limit, after, state } = request.query;
      const { id } = await findWebhook(request, store);
      const page = { limit: limit + 1, after: after && deliveryId(after, id), state };
      const found = await store.webhooks.listDeliveries(id, page);
      return presentList({ found, limit, present: presentDelivery });
    },
  }),
  /** Sends an event again, also one that was delivered. */
  route({
    ...common,
    id: 'retryWebhookDelivery',
    method: 'POST',
    path: '/v1/webhooks/wh_:webhook/deliveries/evt_:event/retry',
    summary: 'Send an event again',
    description: 'Also one that was delivered. `CONFLICT` if the endpoint is disabled.',
    body: { schema: emptyObject, example: {} },
    answers: { description: 'The delivery, which waits.', schema: deliverySchema, example: exampleWaiting },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    limits: ['settings_limit'],
    params: {
      ...params,
      event: {
        description: 'The id of an event.',
        example: exampleEvent.id,
        pattern: eventId,
        missing: noSuchDelivery,
      },
    },
    async handle(request, { store }) {
      const { event } = request.params;
      const { account } = request.caller;
      const { id: endpoint } = await findEnabled(request, store);
      const delivery = await store.webhooks.changeDelivery(deliveryId(event, endpoint), sendAgain);
      await makeDue(store.webhooks, { endpoint, account, now: request.at, isUrgent: true });
      return presentDelivery(delivery);
    },
  }),
];

function sendAgain(found: Delivery | undefined): { result: Delivery; next: Delivery } {
  if (found === undefined) throw noSuchDelivery();
  const next = toSendAgain(found);
  return { result: next, next };
}

type WebhookRequest = Pick<RouteRequest<'signIn', '/wh_:webhook'>, 'caller' | 'params'>;

async function findWebhook(
  { caller, params }: WebhookRequest,
  store: Pick<Store, 'webhooks'>,
): Promise<WebhookEndpoint> {
  return endpointIn(await store.webhooks.findWebhooks(caller.account), params.webhook);
}

/** Fails with `CONFLICT` if the endpoint is disabled. */
async function findEnabled(request: WebhookRequest, store: Pick<Store, 'webhooks'>): Promise<WebhookEndpoint> {
  const endpoint = await findWebhook(request, store);
  if (!endpoint.enabled) throw new ApiError('CONFLICT', 'The webhook endpoint is disabled. Enable it first.');
  return endpoint;
}

function noSuchDelivery(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such delivery.');
}
