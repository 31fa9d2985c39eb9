import { toApiError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { WebhookEndpoint } from '../../shared/store/records/webhooks.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import {
  findQuotaUsage,
  noteThresholds,
  type QuotaUsage,
  reachedThresholds,
  untoldThresholds,
} from '../../shared/webhooks/quota-thresholds.ts';
import { eventOf, isSubscribed, sendEvents } from '../../shared/webhooks/send-events.ts';

const type = 'quota.threshold';

type Deps = {
  store: Pick<Store, 'accounts' | 'usage' | 'webhooks'>;
  currentPlanFile: () => Pick<PlanFile, 'plans'>;
  now: () => Promise<number>;
  log: Pick<Log, 'error'>;
};

type Month = { account: string; month: string };

/**
 * Creates the events of thresholds that the stored usage of these records' accounts has reached. It is called before the records are marked
 * as drained, so that it is called again if it is interrupted. An endpoint gets each threshold of a month once.
 */
export function createAnnounceQuota({ store, currentPlanFile, now, log }: Deps) {
  async function announce({ account, month }: Month, endpoints: readonly WebhookEndpoint[], at: Date): Promise<void> {
    const usage = await findQuotaUsage(store, { account, month, plans: currentPlanFile().plans });
    const reached = reachedThresholds(usage);
    const untold = endpoints.filter(({ quotaTold }) => untoldThresholds(quotaTold, month, reached).length > 0);
    if (untold.length === 0) return;
    for (const { id, quotaTold } of untold) {
      const thresholds = untoldThresholds(quotaTold, month, reached);
      const events = thresholds.map((threshold) => eventOfThreshold({ account, month }, { threshold, usage, at }));
      await sendEvents(store.webhooks, { endpoint: id, events, now: at });
    }
    const told = new Set(untold.map(({ id }) => id));
    await store.webhooks.changeWebhooks(account, (found) => {
      if (found === undefined) return { result: undefined };
      const note = (endpoint: WebhookEndpoint) =>
        told.has(endpoint.id)
          ? { ...endpoint, quotaTold: noteThresholds(endpoint.quotaTold, month, reached) }
          : endpoint;
      return { result: undefined, next: { ...found, endpoints: found.endpoints.map(note) } };
    });
  }

  async function announceAll(records: readonly Month[]): Promise<void> {
    const accounts = [...new Set(records.map(({ account }) => account))];
    const webhooks = await store.webhooks.findWebhooksOf(accounts);
    if (webhooks.length === 0) return;
    const at = new Date(await now());
    for (const { account, endpoints } of webhooks) {
      const subscribed = endpoints.filter((endpoint) => isSubscribed(endpoint, type));
      const months = new Set(records.filter((record) => record.account === account).map(({ month }) => month));
      if (subscribed.length === 0) continue;
      for (const month of months) await announce({ account, month }, subscribed, at);
    }
  }

  return async function announceQuota(records: readonly Pick<UsageRecord, 'account' | 'month'>[]): Promise<void> {
    try {
      await announceAll(records);
    } catch (error) {
      // Any other failure would come again, and usage would wait for it.
      if (toApiError(error).code === 'SERVICE_UNAVAILABLE') throw error;
      log.error({ err: error }, 'events of quotas could not be created');
    }
  };
}

function eventOfThreshold(
  { account, month }: Month,
  { threshold, usage, at }: { threshold: number; usage: QuotaUsage; at: Date },
) {
  const data = { period: month, threshold, used: usage.chargedTokens, limit: usage.limit };
  return eventOf({ account, type, at, what: [month, String(threshold)], data });
}
