import { within } from '../../shared/concurrency/shutdown.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { WorkerConfig } from '../../shared/process/config.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, redisNow } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { createResolveHost } from '../../shared/webhooks/webhook-address.ts';
import { createWebhookSecrets } from '../../shared/webhooks/webhook-secrets.ts';
import { createBackoff } from '../upkeep/backoff.ts';
import { createAcquireLock, createReleaseLock } from '../upkeep/locks.ts';
import { createAnnounceQuota } from './announce-quota.ts';
import { createDeliverToEndpoint, type WebhookMetrics } from './deliver-to-endpoint.ts';
import { createPostEvent } from './post-event.ts';
import { startAnnouncing } from './start-announcing.ts';
import { startDelivering } from './start-delivering.ts';

/** Three times as long as an attempt may take. */
const deliveryHoldMs = 30_000;
const batchHoldMs = 10_000;
/** Longer than the pause between two passes, so that the same worker continues. */
const upkeepHoldMs = 960_000;
const observeMsMax = 1_000;

/**
 * Starts creating events and, if there is a key for the secrets, delivering them. Without that key, deliveries wait for a worker that has
 * it.
 */
export function openWebhooks(deps: {
  config: Pick<WorkerConfig, 'webhooks'>;
  redis: Redis;
  store: Store;
  workerId: string;
  metrics: WebhookMetrics;
  log: Log;
}): AsyncDisposable {
  const { config, redis, store, workerId, metrics, log } = deps;
  const now = () => redisNow(redis);
  const lockFor = (holdMs: number) => createAcquireLock(redis, { workerId, holdMs });
  const releaseLock = createReleaseLock(redis, { workerId });
  const owned = new AsyncDisposableStack();
  metrics.observeWebhooks(() => longestDueSeconds(store, now));
  owned.use(
    startAnnouncing({
      store,
      releaseLock,
      now,
      log,
      acquireBatchLock: lockFor(batchHoldMs),
      acquireUpkeepLock: lockFor(upkeepHoldMs),
    }),
  );
  const { secretKeys, hostsPrivate } = config.webhooks;
  if (secretKeys !== undefined) {
    const deliverToEndpoint = createDeliverToEndpoint({
      store: store.webhooks,
      acquireLock: lockFor(deliveryHoldMs),
      releaseLock,
      now,
      metrics,
      log,
      secrets: createWebhookSecrets(secretKeys),
      postEvent: createPostEvent({ rules: { hostsPrivate, resolve: createResolveHost() } }),
    });
    const backoff = createBackoff<string>();
    owned.use(startDelivering({ store: store.webhooks, deliverToEndpoint, backoff, now, log }));
  }
  return owned;
}

/** Returns the function that creates the events of quotas, for the drainer of usage. */
export function openQuotaEvents({
  redis,
  ...deps
}: {
  redis: Redis;
  store: Store;
  currentPlanFile: () => PlanFile;
  log: Log;
}): ReturnType<typeof createAnnounceQuota> {
  return createAnnounceQuota({ ...deps, now: () => redisNow(redis) });
}

async function longestDueSeconds(
  { webhooks }: Pick<Store, 'webhooks'>,
  now: () => Promise<number>,
): Promise<number | undefined> {
  const look = async () => {
    const at = await now();
    const [first] = await webhooks.listDueSchedules(new Date(at), { limit: 1 });
    return first?.dueAt === undefined ? 0 : (at - first.dueAt.getTime()) / 1_000;
  };
  const looking = look().catch(() => undefined);
  return (await within(observeMsMax, looking)) ? looking : undefined;
}
