import type { Store } from '../../../shared/store/records/store.ts';
import type { WebhookEndpoint } from '../../../shared/store/records/webhooks.ts';
import { type AccountEvent, eventOf, sendEvents } from '../../../shared/webhooks/send-events.ts';
import { createWebhookSecrets, newWebhookSecret } from '../../../shared/webhooks/webhook-secrets.ts';
import { createDeliverToEndpoint, type DeliverDeps } from '../../../workers/webhooks/deliver-to-endpoint.ts';
import { createPostEvent } from '../../../workers/webhooks/post-event.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { endpointOf } from '../../shared/store/webhook-records.ts';
import { recordedLog } from '../../support/recorded-log.ts';

export const account = 'user:ann';
export const secrets = createWebhookSecrets(['a key of at least 32 characters for webhooks']);
export const start = Date.parse('2026-12-05T10:00:00Z');

/** A store with what a worker needs to deliver, a clock that is moved by hand, and locks as one Redis would give them. */
export async function openDeliverySide(given: Partial<DeliverDeps> = {}) {
  const owned = new AsyncDisposableStack();
  const home = owned.use(await createSqliteHome());
  const store = owned.use(await home.open());
  const clock = { now: start };
  const { log, lines } = recordedLog();
  const counts: Record<string, number> = {};
  const count = (of: string) => ({ inc: (labels: object) => void counting(`${of} ${Object.values(labels)}`) });
  const counting = (name: string) => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  const locks = new Map<string, string>();
  const now = async () => clock.now;
  const random = () => 1;

  /** The delivery of one worker. Its locks are its own. */
  function worker(name: string, others: Partial<DeliverDeps> = {}) {
    const metrics = { webhookAttempts: count('attempt'), webhooksDisabled: count('disabled') } as never; // counters
    return createDeliverToEndpoint({
      store: store.webhooks,
      async acquireLock(key) {
        if ((locks.get(key) ?? name) !== name) return false;
        locks.set(key, name);
        return true;
      },
      async releaseLock(key) {
        if (locks.get(key) === name) locks.delete(key);
      },
      secrets,
      postEvent: createPostEvent({ rules: { hostsPrivate: ['127.0.0.1:*'], resolve: async () => ['127.0.0.1'] } }),
      ...{ now, random, metrics, log, ...given, ...others },
    });
  }

  /** Adds an endpoint with a new secret, and returns both. */
  async function addEndpoint(port: number, given: Partial<WebhookEndpoint> = {}) {
    const secret = newWebhookSecret();
    const { id } = endpointOf();
    const sealed = secrets.seal(id, secret);
    const endpoint = endpointOf({ id, url: `http://127.0.0.1:${port}/`, secrets: [{ sealed }], ...given });
    await addTo(store, endpoint);
    return { endpoint, secret };
  }

  const signal = new AbortController().signal;
  const one = worker('one');
  return {
    ...{ store, clock, log, lines, counts, locks, worker, addEndpoint, now },
    send: (endpoint: string, events: readonly AccountEvent[]) =>
      sendEvents(store.webhooks, { endpoint, events, now: new Date(clock.now) }),
    /** Sends to each endpoint that is due; returns their ids. */
    async deliverDue(by = one): Promise<string[]> {
      const due = await store.webhooks.listDueSchedules(new Date(clock.now), { limit: 100 });
      for (const schedule of due) await by(schedule, signal);
      return due.map(({ endpoint }) => endpoint);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function addTo({ webhooks }: Store, endpoint: WebhookEndpoint): Promise<void> {
  await webhooks.changeWebhooks(account, (found = { account, endpoints: [], version: 1 }) => ({
    result: undefined,
    next: { ...found, endpoints: [...found.endpoints, endpoint] },
  }));
}

/** An event of the batch with this name. */
export function batchEvent(name: string): AccountEvent {
  return eventOf({ account, type: 'batch.completed', at: new Date(start), what: [name], data: { id: name } });
}
