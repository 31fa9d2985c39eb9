import { ulid } from 'ulid';
import {
  type AccountWebhooks,
  type Delivery,
  type WebhookEndpoint,
  type WebhookSchedule,
  webhookEvents,
} from '../../../shared/store/records/webhooks.ts';

const createdAt = new Date('2026-12-05T10:11:12.345Z');

export function endpointOf(given: Partial<WebhookEndpoint> = {}): WebhookEndpoint {
  return {
    id: `wh_${ulid()}`,
    url: 'https://receiver.example.com/events',
    description: 'the build server',
    events: [...webhookEvents],
    enabled: true,
    enabledAt: createdAt,
    secrets: [{ sealed: 'sealed' }],
    quotaTold: { '2026-12': 80 },
    createdAt,
    ...given,
  };
}

export function webhooksOf(account: string, endpoints = [endpointOf()]): AccountWebhooks {
  return { account, endpoints, version: 1 };
}

export function deliveryOf(given: Partial<Delivery> = {}): Delivery {
  const { endpoint = 'wh_any' } = given;
  const event = `evt_${ulid()}`;
  return {
    id: `${event}:${endpoint}`,
    event,
    endpoint,
    account: 'user:ann',
    type: 'batch.completed',
    payload: '{}',
    state: 'waiting',
    attempts: [],
    attemptCount: 0,
    nextAt: new Date(1),
    createdAt,
    version: 1,
    ...given,
  };
}

export function scheduleOf(endpoint: string, given: Partial<WebhookSchedule> = {}): WebhookSchedule {
  return { endpoint, account: 'user:ann', failures: 0, version: 1, ...given };
}
