import { z } from 'zod';
import { deliveryStates, webhookEvents } from '../../../shared/store/webhooks/webhook.ts';
import { limitParameter } from '../../api/list-query.ts';

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

export const newWebhookBody = z.strictObject({ url, events, description: description.default('') });
export const webhookChangeBody = z.strictObject({
  url: url.optional(),
  events: events.optional(),
  description: description.optional(),
  enabled: z.boolean().optional().meta({ description: 'Events of the time while it is disabled are not sent.' }),
});

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
