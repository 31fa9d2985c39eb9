import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch } from '../../shared/batches/batch.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import { batchEventsLockKey, webhookUpkeepLockKey } from '../../shared/redis/keys.ts';
import type { BatchRecords } from '../../shared/store/records/batch-records.ts';
import type { Key } from '../../shared/store/records/key.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { AccountWebhooks, WebhookStore } from '../../shared/store/records/webhooks.ts';
import {
  type AccountEvent,
  eventOf,
  isSubscribed,
  type SendStore,
  sendEvents,
} from '../../shared/webhooks/send-events.ts';
import type { AcquireLock, ReleaseLock } from '../upkeep/locks.ts';
import { repeatTask } from '../upkeep/repeat-task.ts';

const batchesEveryMs = 1_000;
const keysEveryMs = 900_000;
const releaseMs = 500;

type Deps = {
  store: Pick<Store, 'batches' | 'accounts' | 'webhooks'>;
  acquireBatchLock: AcquireLock;
  acquireUpkeepLock: AcquireLock;
  releaseLock: ReleaseLock;
  now: () => Promise<number>;
  log: Pick<Log, 'warn'>;
};

/** One worker of the fleet creates the events of batches, every second, and one those of expiring keys, every 15 minutes. */
export function startAnnouncing(deps: Deps): AsyncDisposable {
  const { store, acquireBatchLock, acquireUpkeepLock, releaseLock, log } = deps;
  const now = async () => new Date(await deps.now());

  const batches = repeatTask({
    log,
    everyMs: batchesEveryMs,
    failed: 'events of batches were not created; trying again',
    async work(signal) {
      while (
        !signal.aborted &&
        (await acquireBatchLock(batchEventsLockKey)) &&
        (await announceBatches(store, await now()))
      );
    },
  });
  const upkeep = repeatTask({
    log,
    everyMs: keysEveryMs,
    failed: 'expiring keys were not checked for events; trying again',
    async work(signal) {
      if (!(await acquireUpkeepLock(webhookUpkeepLockKey))) return;
      await announceExpiringKeys(store, { now: await now(), signal });
      await removeOldDeliveries(store.webhooks, { now: await now(), signal });
    },
  });

  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([batches[Symbol.asyncDispose](), upkeep[Symbol.asyncDispose]()]);
      const released = Promise.all([releaseLock(batchEventsLockKey), releaseLock(webhookUpkeepLockKey)]);
      await within(releaseMs, released).catch(() => {});
    },
  };
}

const batchesAtOnce = 100;

type EventStores = {
  batches: Pick<BatchRecords, 'listEndedBatches' | 'forgetEndedBatches'>;
  webhooks: SendStore & Pick<WebhookStore, 'findWebhooksOf'>;
};

/**
 * Creates the events of batches that have ended, and only then removes their marks. If it is interrupted, the next call creates the same
 * events. Returns whether there may be more.
 */
export async function announceBatches(store: EventStores, now: Date): Promise<boolean> {
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

const expiring = 'key.expiring';
const noticeMs = 7 * 86_400_000;
const accountsAtOnce = 100;
/** Between two pages, so that the task does not slow down other work. */
const pauseMs = 5;

/**
 * Creates the events of keys that expire within seven days, for all accounts that have an endpoint for them. A key has one event for each
 * expiry. Stops early once the signal is aborted.
 */
export async function announceExpiringKeys(
  store: Pick<Store, 'accounts' | 'webhooks'>,
  { now, signal }: { now: Date; signal: AbortSignal },
): Promise<void> {
  for (let after: string | undefined = ''; after !== undefined && !signal.aborted; ) {
    const page = await store.webhooks.listWebhooks({ after, limit: accountsAtOnce });
    for (const webhooks of page) if (!signal.aborted) await announceKeysOf(store, webhooks, now);
    after = page.length < accountsAtOnce ? undefined : page.at(-1)?.account;
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}

async function announceKeysOf(
  store: Pick<Store, 'accounts' | 'webhooks'>,
  { account, endpoints }: AccountWebhooks,
  now: Date,
): Promise<void> {
  const subscribed = endpoints.filter((endpoint) => isSubscribed(endpoint, expiring));
  if (subscribed.length === 0) return;
  const keys = (await store.accounts.findAccount(account))?.keys ?? [];
  const events = keys.flatMap((key) => eventOfKey(account, key, now) ?? []);
  if (events.length === 0) return;
  for (const { id } of subscribed) await sendEvents(store.webhooks, { endpoint: id, events, now });
}

/** Undefined unless the key expires soon. A key that was rotated has a successor. */
function eventOfKey(account: string, { id, name, state, expiresAt }: Key, now: Date) {
  if (expiresAt === undefined || state !== 'active') return undefined;
  const leftMs = expiresAt.getTime() - now.getTime();
  if (leftMs <= 0 || leftMs > noticeMs) return undefined;
  const seconds = Math.floor(expiresAt.getTime() / 1_000);
  return eventOf({
    account,
    type: expiring,
    at: now,
    what: [id, String(seconds)],
    data: { id, name, expires_at: seconds },
  });
}

const deliveriesKeptMs = 30 * 86_400_000;
const removedAtOnce = 500;

/** Removes deliveries that are older than 30 days, until the signal is aborted. */
export async function removeOldDeliveries(
  store: Pick<WebhookStore, 'removeDeliveriesBefore'>,
  { now, signal }: { now: Date; signal: AbortSignal },
): Promise<void> {
  const before = new Date(now.getTime() - deliveriesKeptMs);
  while (!signal.aborted && (await store.removeDeliveriesBefore(before, removedAtOnce)) > 0) {
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}
