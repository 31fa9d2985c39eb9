import { setTimeout as sleep } from 'node:timers/promises';
import type { Key } from '../../shared/store/accounts/key.ts';
import type { Store } from '../../shared/store/store.ts';
import type { AccountWebhooks } from '../../shared/store/webhooks/webhook.ts';
import { isSubscribed, sendEvents } from '../../shared/webhooks/send-events.ts';
import { eventOf } from '../../shared/webhooks/webhook-event.ts';

const type = 'key.expiring';
const noticeMs = 7 * 86_400_000;
const accountsAtOnce = 100;
/** Between two pages, so that the task does not slow down other work. */
const pauseMs = 5;

/**
 * Creates the events of keys that expire within seven days, for all accounts that have an endpoint for them. A key has one event for each
 * expiry. Stops early once the signal is aborted.
 */
export function createAnnounceExpiringKeys(store: Pick<Store, 'accounts' | 'webhooks'>) {
  async function announce({ account, endpoints }: AccountWebhooks, now: Date): Promise<void> {
    const subscribed = endpoints.filter((endpoint) => isSubscribed(endpoint, type));
    if (subscribed.length === 0) return;
    const keys = (await store.accounts.findAccount(account))?.keys ?? [];
    const events = keys.flatMap((key) => eventOfKey(account, key, now) ?? []);
    if (events.length === 0) return;
    for (const { id } of subscribed) await sendEvents(store.webhooks, { endpoint: id, events, now });
  }

  return async function announceExpiringKeys(now: Date, signal: AbortSignal): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined && !signal.aborted; ) {
      const page = await store.webhooks.listWebhooks({ after, limit: accountsAtOnce });
      for (const webhooks of page) if (!signal.aborted) await announce(webhooks, now);
      after = page.length < accountsAtOnce ? undefined : page.at(-1)?.account;
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  };
}

/** Undefined unless the key expires soon. A key that was rotated has a successor. */
function eventOfKey(account: string, { id, name, state, expiresAt }: Key, now: Date) {
  if (expiresAt === undefined || state !== 'active') return undefined;
  const leftMs = expiresAt.getTime() - now.getTime();
  if (leftMs <= 0 || leftMs > noticeMs) return undefined;
  const seconds = Math.floor(expiresAt.getTime() / 1_000);
  return eventOf({ account, type, at: now, what: [id, String(seconds)], data: { id, name, expires_at: seconds } });
}
