import type { Batch } from '../../shared/batches/batch.ts';
import type { BatchRecords } from '../../shared/store/batches/batch-records.ts';
import type { WebhookStore } from '../../shared/store/webhooks/webhook-store.ts';
import { isSubscribed, type SendStore, sendEvents } from '../../shared/webhooks/send-events.ts';
import { type AccountEvent, eventOf } from '../../shared/webhooks/webhook-event.ts';

const batchesAtOnce = 100;

type Stores = {
  batches: Pick<BatchRecords, 'listEndedBatches' | 'forgetEndedBatches'>;
  webhooks: SendStore & Pick<WebhookStore, 'findWebhooksOf'>;
};

/**
 * Creates the events of batches that have ended, and only then removes their marks. If it is interrupted, the next call creates the same
 * events. Returns whether there may be more.
 */
export function createAnnounceBatches(store: Stores): (now: Date) => Promise<boolean> {
  return async function announceBatches(now) {
    const ended = await store.batches.listEndedBatches(batchesAtOnce);
    if (ended.length === 0) return false;
    const webhooks = await store.webhooks.findWebhooksOf([...new Set(ended.map(({ account }) => account))]);
    for (const { account, endpoints } of webhooks) {
      const events = ended.filter((batch) => batch.account === account).flatMap((batch) => eventOfBatch(batch) ?? []);
      for (const endpoint of endpoints) {
        const wanted = events.filter(({ type }) => isSubscribed(endpoint, type));
        await sendEvents(store.webhooks, { endpoint: endpoint.id, events: wanted, now });
      }
    }
    await store.batches.forgetEndedBatches(ended.map(({ id }) => id));
    return ended.length === batchesAtOnce;
  };
}

/** Undefined if the batch has not ended. */
function eventOfBatch(batch: Batch): AccountEvent | undefined {
  const { id, account } = batch;
  const ended = endOf(batch);
  return (
    ended &&
    eventOf({ account, type: `batch.${ended.state}`, at: ended.at ?? batch.createdAt, what: [id], data: { id } })
  );
}

function endOf({ state, ...batch }: Batch) {
  switch (state) {
    case 'completed':
      return { state, at: batch.completedAt };
    case 'failed':
      return { state, at: batch.failedAt };
    case 'expired':
      return { state, at: batch.expiredAt };
    case 'cancelled':
      return { state, at: batch.cancelledAt };
    default:
      return undefined;
  }
}
