import type { Delivery, WebhookSchedule } from '../../shared/store/webhooks/webhook.ts';
import type { WebhookStore } from '../../shared/store/webhooks/webhook-store.ts';
import { withoutFailures } from './after-attempt.ts';

const removedAtOnce = 500;
const failedAtOnce = 100;
const isDisabled = 'the endpoint is disabled';

/** Removes a piece of what is left of an endpoint that was deleted. Returns whether nothing is left. */
export async function clearEndpoint(
  store: Pick<WebhookStore, 'removeDeliveries' | 'removeSchedule'>,
  endpoint: string,
): Promise<boolean> {
  if ((await store.removeDeliveries(endpoint, removedAtOnce)) > 0) return false;
  await store.removeSchedule(endpoint);
  return true;
}

/** Fails some deliveries that wait for a disabled endpoint. If there are none, forgets its failures, and returns true. */
export async function failWaiting(
  store: Pick<WebhookStore, 'listWaiting' | 'changeDelivery' | 'changeSchedule'>,
  { endpoint, version }: WebhookSchedule,
): Promise<boolean> {
  const waiting = await store.listWaiting(endpoint, failedAtOnce);
  await Promise.all(waiting.map(({ id }) => store.changeDelivery(id, fail)));
  if (waiting.length > 0) return false;
  await store.changeSchedule(endpoint, (found) => {
    if (found === undefined || found.version !== version) return { result: undefined };
    const { dueAt: _, ...idle } = withoutFailures(found);
    return { result: undefined, next: idle };
  });
  return true;
}

function fail(found: Delivery | undefined): { result: undefined; next?: Delivery } {
  if (found?.state !== 'waiting') return { result: undefined };
  const { nextAt: _, ...others } = found;
  return { result: undefined, next: { ...others, state: 'failed', reason: isDisabled } };
}
