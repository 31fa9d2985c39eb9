import { z } from 'zod';
import { ApiError } from '../../shared/errors.ts';
import type { Decide as DecideDocument } from '../../shared/store/documents.ts';
import {
  type AccountWebhooks,
  deliveryStates,
  type WebhookEndpoint,
  webhookEvents,
} from '../../shared/store/records/webhooks.ts';
import { isSubscribed } from '../../shared/webhooks/send-events.ts';
import { limitParameter } from '../api/lists.ts';
import { named } from '../api/route.ts';

/** Workers read all endpoints of an account at each of its events. */
const endpointsMax = 10;
const oldSecretMs = 86_400_000;
/** The current secret, and old ones that still sign. */
const secretsMax = 4;

type Decide<Result> = DecideDocument<AccountWebhooks, Result>;

/** Adds an endpoint. Fails with `CONFLICT` if the account has ten. */
export function addEndpoint(account: string, endpoint: WebhookEndpoint): Decide<void> {
  return (found = { account, endpoints: [], version: 1 }) => {
    if (found.endpoints.length >= endpointsMax) {
      throw new ApiError('CONFLICT', `An account has at most ${endpointsMax} webhook endpoints.`);
    }
    return { result: undefined, next: { ...found, endpoints: [...found.endpoints, endpoint] } };
  };
}

/** Changes an endpoint. Fails with `NOT_FOUND` if the account does not have it. */
export function changeEndpoint(
  id: string,
  change: (endpoint: WebhookEndpoint) => WebhookEndpoint,
): Decide<WebhookEndpoint> {
  return (found) => {
    const changed = change(endpointIn(found, id));
    const endpoints = found?.endpoints.map((endpoint) => (endpoint.id === id ? changed : endpoint)) ?? [];
    return { result: changed, ...(found && { next: { ...found, endpoints } }) };
  };
}

export function removeEndpoint(id: string): Decide<WebhookEndpoint> {
  return (found) => {
    const removed = endpointIn(found, id);
    const endpoints = found?.endpoints.filter((endpoint) => endpoint.id !== id) ?? [];
    return { result: removed, ...(found && { next: { ...found, endpoints } }) };
  };
}

type Body = z.infer<typeof webhookChangeBody>;
type Present = { now: number; quotaTold: WebhookEndpoint['quotaTold'] };

/**
 * Returns the endpoint with these fields. Failures from before it was enabled, or of another address, do not count. Only an endpoint that
 * was subscribed already gets events of thresholds that have passed by now.
 */
export function changeFields(before: WebhookEndpoint, given: Body, { now, quotaTold }: Present): WebhookEndpoint {
  const { url = before.url, description = before.description, enabled = before.enabled } = given;
  const changed = { ...before, url, description, enabled, events: given.events ?? before.events };
  const isNew = isSubscribed(changed, 'quota.threshold') && !isSubscribed(before, 'quota.threshold');
  const told = isNew ? { ...changed, quotaTold } : changed;
  const beginsAnew = url !== before.url || (enabled && !before.enabled);
  const counted = beginsAnew ? { ...told, enabledAt: new Date(now) } : told;
  if (!enabled) return counted;
  const { disabledReason: _, ...others } = counted;
  return others;
}

/** Returns the endpoint with a new secret. The others also sign for a day (contract.md#j3-deliveries). */
export function rotateSecret(endpoint: WebhookEndpoint, { sealed, now }: { sealed: string; now: number }) {
  const until = new Date(now + oldSecretMs);
  const old = endpoint.secrets.filter((secret) => secret.until === undefined || secret.until.getTime() > now);
  const ending = old.map((secret) => ({ until, ...secret }));
  return { ...endpoint, secrets: [{ sealed }, ...ending].slice(0, secretsMax) };
}

export function endpointIn(found: AccountWebhooks | undefined, id: string): WebhookEndpoint {
  const endpoint = found?.endpoints.find((each) => each.id === id);
  if (endpoint === undefined) throw noSuchWebhook();
  return endpoint;
}

export function noSuchWebhook(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such webhook endpoint.');
}

const url = z.string().min(1).max(2_048).meta({ description: 'Where events are sent: a public `https:` address.' });
const events = z
  .array(z.enum(webhookEvents))
  .min(1, 'expected at least one event')
  .max(webhookEvents.length)
  .refine((names) => new Set(names).size === names.length, 'expected each only once')
  .meta({ description: 'The types of events that are sent.' });
const description = z
  .string()
  .regex(/^[^\p{Cc}\p{Cs}]{0,200}$/u, 'expected at most 200 characters')
  .meta({ description: 'What the endpoint is for.' });

export const newWebhookBody = named(
  'NewWebhook',
  z.strictObject({ url, events, description: description.default('') }),
);
export const webhookChangeBody = named(
  'WebhookChange',
  z.strictObject({
    url: url.optional(),
    events: events.optional(),
    description: description.optional(),
    enabled: z.boolean().optional().meta({ description: 'Events of the time while it is disabled are not sent.' }),
  }),
);

export const eventId = /^evt_[0-9a-f]{32}$/;

export const deliveriesQuery = z.strictObject({
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(eventId, 'expected the id of an event')
    .optional()
    .meta({ description: 'The delivery before the first one to return: `last_id` of the previous page.' }),
  state: z.enum(deliveryStates).optional().meta({ description: 'Only deliveries in this state.' }),
});
