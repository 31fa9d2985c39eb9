import { Webhook } from 'standardwebhooks';
import type { Delivery, WebhookEndpoint } from '../../shared/store/webhooks/webhook.ts';
import type { WebhookSecrets } from '../../shared/webhooks/webhook-secrets.ts';

/** Returns the headers of a delivery. It is signed with each secret that is valid at this time, the current one first. */
export function signEvent(
  { event, payload }: Pick<Delivery, 'event' | 'payload'>,
  { id, secrets }: Pick<WebhookEndpoint, 'id' | 'secrets'>,
  { at, open }: { at: Date } & Pick<WebhookSecrets, 'open'>,
): Record<string, string> {
  const valid = secrets.filter(({ until }) => until === undefined || until > at);
  const signatures = valid.map(({ sealed }) => new Webhook(open(id, sealed)).sign(event, at, payload));
  return {
    'content-type': 'application/json',
    'user-agent': 'inference-service-webhooks',
    'webhook-id': event,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
    'webhook-signature': signatures.join(' '),
  };
}
