import { deliveriesQuery } from '../../routes/webhooks/webhook-fields.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const webhook = {
  id: 'wh_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'webhook_endpoint',
  url: 'https://app.example.com/events',
  description: 'the billing service',
  events: ['batch.completed', 'quota.threshold'],
  enabled: true,
  disabled_reason: null,
  old_secrets_until: null,
  created_at: 1_767_225_600,
} as const;
const { url, events, description } = webhook;
const secret = 'whsec_…';
const event = {
  id: 'evt_5f1c0a7be2d94c3f8a60d1b2c3e4f506',
  object: 'event',
  created_at: 1_767_225_660,
  type: 'batch.completed',
  data: { id: 'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXB' },
} as const;
const delivery = {
  id: event.id,
  object: 'webhook_delivery',
  webhook_id: webhook.id,
  type: event.type,
  state: 'delivered',
  reason: null,
  attempt_count: 1,
  attempts: [{ at: 1_767_225_661, ms: 84, status: 204, error: null }],
  next_attempt_at: null,
  created_at: 1_767_225_660,
  payload: event,
} as const;
const waiting = { ...delivery, state: 'waiting', next_attempt_at: 1_767_225_660 } as const;
const isOff = '`FORBIDDEN` also if the operator has not enabled webhooks.';
const refusals = [...refusedHead.signIn, 'NOT_FOUND'] as const;
const refusalsWithBody = [...refusals, ...refusedBody] as const;

export const webhookRoutes = {
  'POST /v1/webhooks': {
    id: 'createWebhook',
    tag: 'Webhooks',
    summary: 'Create a webhook endpoint',
    description: `The secret is shown only once. At most 10 endpoints an account; then \`CONFLICT\`. ${isOff}`,
    credential: 'signIn',
    body: { schema: 'NewWebhook', example: { url, events, description } },
    answer: { description: 'The endpoint.', schema: 'CreatedWebhook', example: { ...webhook, secret } },
    refusals: [...refusedHead.signIn, ...refusedBody, 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'GET /v1/webhooks': {
    id: 'listWebhooks',
    tag: 'Webhooks',
    summary: 'List all webhook endpoints of the account',
    description: `Oldest first, all in one page. ${isOff}`,
    credential: 'signIn',
    answer: {
      description: 'The endpoints.',
      schema: 'WebhookList',
      example: { object: 'list', data: [webhook], first_id: webhook.id, last_id: webhook.id, has_more: false },
    },
    refusals: refusedHead.signIn,
  },
  'GET /v1/webhooks/wh_:webhook': {
    id: 'retrieveWebhook',
    tag: 'Webhooks',
    summary: 'Retrieve a webhook endpoint',
    credential: 'signIn',
    answer: { description: 'The endpoint.', schema: 'Webhook', example: webhook },
    refusals,
  },
  'PATCH /v1/webhooks/wh_:webhook': {
    id: 'updateWebhook',
    tag: 'Webhooks',
    summary: 'Change a webhook endpoint',
    description: 'Replaces the fields that are sent. `enabled: true` also ends a pause after failures.',
    credential: 'signIn',
    body: { schema: 'WebhookChange', example: { enabled: false } },
    answer: { description: 'The endpoint.', schema: 'Webhook', example: { ...webhook, enabled: false } },
    refusals: [...refusalsWithBody, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'DELETE /v1/webhooks/wh_:webhook': {
    id: 'deleteWebhook',
    tag: 'Webhooks',
    summary: 'Delete a webhook endpoint',
    description: 'Nothing is sent to it any more, and its deliveries are removed.',
    credential: 'signIn',
    answer: {
      description: 'The endpoint is deleted.',
      schema: 'DeletedWebhook',
      example: { id: webhook.id, object: 'webhook_endpoint', deleted: true },
    },
    refusals: [...refusals, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /v1/webhooks/wh_:webhook/rotate-secret': {
    id: 'rotateWebhookSecret',
    tag: 'Webhooks',
    summary: 'Rotate the secret of a webhook endpoint',
    description: 'The new secret is shown only once. Events are signed with the old one, too, for 24 hours.',
    credential: 'signIn',
    body: { schema: 'EmptyObject', example: {} },
    answer: {
      description: 'The endpoint, with the new secret.',
      schema: 'CreatedWebhook',
      example: { ...webhook, old_secrets_until: 1_767_312_000, secret },
    },
    refusals: [...refusalsWithBody, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /v1/webhooks/wh_:webhook/test': {
    id: 'testWebhook',
    tag: 'Webhooks',
    summary: 'Send a test event',
    description:
      'Sends an event of the type `webhook.test` within about a second. Repeated within ten seconds, it is the same event. `CONFLICT` if the endpoint is disabled.',
    credential: 'signIn',
    body: { schema: 'EmptyObject', example: {} },
    answer: {
      description: 'Its delivery, which usually still waits.',
      schema: 'WebhookDelivery',
      example: { ...waiting, attempt_count: 0, attempts: [] },
    },
    refusals: [...refusalsWithBody, 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'GET /v1/webhooks/wh_:webhook/deliveries': {
    id: 'listWebhookDeliveries',
    tag: 'Webhooks',
    summary: 'List the deliveries to a webhook endpoint',
    description: 'Those of the last 30 days, newest first.',
    credential: 'signIn',
    query: deliveriesQuery,
    answer: {
      description: 'A page of deliveries.',
      schema: 'WebhookDeliveryList',
      example: { object: 'list', data: [delivery], first_id: event.id, last_id: event.id, has_more: false },
    },
    refusals,
  },
  'POST /v1/webhooks/wh_:webhook/deliveries/evt_:event/retry': {
    id: 'retryWebhookDelivery',
    tag: 'Webhooks',
    summary: 'Send an event again',
    description: 'Also one that was delivered. `CONFLICT` if the endpoint is disabled.',
    credential: 'signIn',
    body: { schema: 'EmptyObject', example: {} },
    answer: { description: 'The delivery, which waits.', schema: 'WebhookDelivery', example: waiting },
    refusals: [...refusalsWithBody, 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
} as const satisfies RouteDescriptions;
