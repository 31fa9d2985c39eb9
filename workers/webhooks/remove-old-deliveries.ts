import { setTimeout as sleep } from 'node:timers/promises';
import type { WebhookStore } from '../../shared/store/webhooks/webhook-store.ts';

const keptMs = 30 * 86_400_000;
const removedAtOnce = 500;
const pauseMs = 5;

/** Removes deliveries that are older than 30 days, until the signal is aborted. */
export async function removeOldDeliveries(
  store: Pick<WebhookStore, 'removeDeliveriesBefore'>,
  { now, signal }: { now: Date; signal: AbortSignal },
): Promise<void> {
  const before = new Date(now.getTime() - keptMs);
  while (!signal.aborted && (await store.removeDeliveriesBefore(before, removedAtOnce)) > 0) {
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}
