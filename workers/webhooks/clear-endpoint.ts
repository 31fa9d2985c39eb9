import type { Delivery, WebhookSchedule } from '../../shared/store/webhooks/webhook.ts';
import type { WebhookStore } from '../../shared/store/webhooks/webhook-store.ts';
import { withoutFailures } from './after-attempt.ts';

const removedAtOnce = 500;
const failedAtOnce = 100;
const isDisabled = 'the endpoint is disabled';

/** Removes what is left of an endpoint that was deleted. */
export async function clearEndpoint(
  store: Pick<WebhookStore, 'removeDeliveries' | 'removeSchedule'>,
  endpoint: string,
): Promise<void> {
  while ((await store.removeDeliveries(endpoint, removedAtOnce)) > 0);
  await store.removeSchedule(endpoint);
}

/** Fails all deliveries that wait for a disabled endpoint, then forgets its failures. Stops if the lock is lost. */
export async function failWaiting(
  {
    store,
    keepLock,
  }: { store: Pick<WebhookStore, 'listWaiting' | 'changeDelivery' | 'changeSchedule'>; keepLock(): Promise<boolean> },
  { endpoint, version }: WebhookSchedule,
): Promise<void> {
  for (;;) {
    const waiting = await store.listWaiting(endpoint, failedAtOnce);
    if (waiting.length === 0) break;
    await Promise.all(waiting.map(({ id }) => store.changeDelivery(id, fail)));
    if (!(await keepLock())) return;
  }
  await store.changeSchedule(endpoint, (found) => {
    if (found === undefined || found.version !== version) return { result: undefined };
    const { dueAt: _, ...idle } = withoutFailures(found);
    return { result: undefined, next: idle };
  });
}

function fail(found: Delivery | undefined): { result: undefined; next?: Delivery } {
  if (found?.state !== 'waiting') return { result: undefined };
  const { nextAt: _, ...others } = found;
  return { result: undefined, next: { ...others, state: 'failed', reason: isDisabled } };
}
