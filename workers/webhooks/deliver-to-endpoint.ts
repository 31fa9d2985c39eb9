import { Counter, type Registry } from 'prom-client';
import { Webhook } from 'standardwebhooks';
import type { Log } from '../../shared/process/log.ts';
import { observeGauge, startAtZero } from '../../shared/process/metrics.ts';
import { webhookLockKey } from '../../shared/redis/keys.ts';
import type { Delivery, WebhookEndpoint, WebhookSchedule, WebhookStore } from '../../shared/store/records/webhooks.ts';
import { isUrgent } from '../../shared/webhooks/send-events.ts';
import type { WebhookSecrets } from '../../shared/webhooks/webhook-secrets.ts';
import type { AcquireLock, ReleaseLock } from '../upkeep/locks.ts';
import {
  type AttemptResult,
  afterAttempt,
  isSuccess,
  reasonToDisable,
  scheduleAfter,
  sinceEnabled,
  withAttempt,
  withoutFailures,
} from './after-attempt.ts';
import type { PostEvent } from './post-event.ts';

/** After so many deliveries, or so long, other endpoints have their turn. A receiver that is slow has it after each delivery. */
const deliveriesAtOnce = 100;
const roundMsMax = 5_000;

export type DeliverDeps = {
  store: WebhookStore;
  acquireLock: AcquireLock;
  releaseLock: ReleaseLock;
  secrets: Pick<WebhookSecrets, 'open'>;
  postEvent: PostEvent;
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  random?: () => number;
  metrics: Pick<WebhookMetrics, 'webhookAttempts' | 'webhooksDisabled'>;
  log: Pick<Log, 'info' | 'warn'>;
};

/**
 * Sends what is due to one endpoint, one delivery after another, until the first failure. False if another worker is doing that. If it is
 * interrupted, at any step, the endpoint is still due, and the next call continues (contract.md#j3-deliveries).
 */
export type DeliverToEndpoint = (schedule: WebhookSchedule, signal: AbortSignal) => Promise<boolean>;

export function createDeliverToEndpoint(deps: DeliverDeps): DeliverToEndpoint {
  const { store, acquireLock, releaseLock, now } = deps;

  async function deliver({ endpoint, account }: WebhookSchedule, signal: AbortSignal): Promise<void> {
    const lock = webhookLockKey(endpoint);
    // The lock is renewed before each delivery, which takes far less than the time that it is held.
    const until = (await now()) + roundMsMax;
    for (let sent = 0; sent < deliveriesAtOnce && !signal.aborted && (await acquireLock(lock)); sent += 1) {
      const schedule = await store.findSchedule(endpoint);
      const found = await findEndpoint(store, account, endpoint);
      if (schedule === undefined) return;
      if (!found?.enabled) {
        if (await (found === undefined ? clearEndpoint(store, endpoint) : failWaiting(store, schedule))) return;
        continue; // a piece is done: it may have been enabled meanwhile
      }
      const at = new Date(await now());
      if (at.getTime() > until) break;
      const [next] = await store.listWaiting(endpoint, 1);
      if (next?.nextAt === undefined || next.nextAt > at) return setDue(store, schedule, next?.nextAt);
      if (!(await attempt(deps, { endpoint: found, schedule, delivery: next, at }))) return;
    }
    await moveBack(store, endpoint, new Date(await now()));
  }

  return async function deliverToEndpoint(schedule, signal) {
    const lock = webhookLockKey(schedule.endpoint);
    if (!(await acquireLock(lock))) return false;
    try {
      await deliver(schedule, signal);
      return true;
    } finally {
      await releaseLock(lock).catch(() => {}); // it expires
    }
  };
}

type Attempt = { endpoint: WebhookEndpoint; schedule: WebhookSchedule; delivery: Delivery; at: Date };

/** Makes one attempt, and stores its outcome. Returns whether it succeeded. */
async function attempt(deps: DeliverDeps, { endpoint, schedule, delivery, at }: Attempt): Promise<boolean> {
  const { store, secrets, postEvent, now, random = Math.random, metrics, log } = deps;
  const headers = signEvent(delivery, endpoint, { at, open: secrets.open });
  const answer = await postEvent(endpoint.url, { headers, body: delivery.payload });
  const attempted: AttemptResult = { at, ms: Math.max(0, (await now()) - at.getTime()), answer, random };
  const succeeded = isSuccess(answer);
  await store.changeDelivery(delivery.id, (found) => ({
    result: undefined,
    // A delivery that was to be sent again meanwhile is still to be sent.
    ...(found && { next: (found.version === delivery.version ? afterAttempt : withAttempt)(found, attempted) }),
  }));
  metrics.webhookAttempts.inc({ outcome: succeeded ? 'delivered' : 'failed' });
  const { id, account, event, type } = { ...endpoint, ...delivery, id: endpoint.id };
  const { status, error } = answer;
  log.info({ endpoint: id, account, event, type, status, error, ms: attempted.ms }, 'a webhook delivery was attempted');
  if (succeeded && schedule.failures === 0) return true;

  const reason = reasonToDisable(sinceEnabled(schedule, endpoint), attempted);
  if (reason !== undefined && (await disable(store, { account, endpoint, reason }))) {
    metrics.webhooksDisabled.inc({ reason });
    log.warn({ endpoint: id, account, reason }, 'a webhook endpoint was disabled');
  }
  // The next call finds that the endpoint is disabled, or sends what must not wait for the pause.
  const isDue = reason !== undefined || isUrgent((await store.listWaiting(id, 1))[0]);
  await store.changeSchedule(id, (found) => {
    const next = scheduleAfter(sinceEnabled(found ?? schedule, endpoint), attempted);
    return { result: undefined, next: isDue ? { ...next, dueAt: at } : next };
  });
  return succeeded;
}

async function findEndpoint(
  store: Pick<WebhookStore, 'findWebhooks'>,
  account: string,
  endpoint: string,
): Promise<WebhookEndpoint | undefined> {
  const found = await store.findWebhooks(account);
  return found?.endpoints.find(({ id }) => id === endpoint);
}

/** Sets when the endpoint is due next, unless a delivery was added since the schedule was read. */
async function setDue(
  store: Pick<WebhookStore, 'changeSchedule'>,
  { endpoint, version }: WebhookSchedule,
  nextAt: Date | undefined,
): Promise<void> {
  await store.changeSchedule(endpoint, (found) => {
    if (found === undefined || found.version !== version) return { result: undefined };
    const { dueAt: _, ...others } = found;
    return { result: undefined, next: { ...others, ...(nextAt && { dueAt: nextAt }) } };
  });
}

/** Endpoints that have been due for longer come first. */
async function moveBack(store: Pick<WebhookStore, 'changeSchedule'>, endpoint: string, at: Date): Promise<void> {
  await store.changeSchedule(endpoint, (found) => ({
    result: undefined,
    ...(found?.dueAt && found.dueAt < at && { next: { ...found, dueAt: at } }),
  }));
}

type DisableOptions = {
  account: string;
  endpoint: WebhookEndpoint;
  reason: NonNullable<WebhookEndpoint['disabledReason']>;
};

/** False if it is not enabled any more, or was enabled again or has got another address since it was read. */
async function disable(
  store: Pick<WebhookStore, 'changeWebhooks'>,
  { account, endpoint: { id, enabledAt }, reason }: DisableOptions,
): Promise<boolean> {
  return store.changeWebhooks(account, (found) => {
    const isThis = (each: WebhookEndpoint) =>
      each.id === id && each.enabled && each.enabledAt.getTime() === enabledAt.getTime();
    if (!found?.endpoints.some(isThis)) return { result: false };
    const endpoints = found.endpoints.map((each) =>
      isThis(each) ? { ...each, enabled: false, disabledReason: reason } : each,
    );
    return { result: true, next: { ...found, endpoints } };
  });
}

const removedAtOnce = 500;
const failedAtOnce = 100;
const isDisabled = 'the endpoint is disabled';

/** Removes a piece of what is left of an endpoint that was deleted. Returns whether nothing is left. */
async function clearEndpoint(
  store: Pick<WebhookStore, 'removeDeliveries' | 'removeSchedule'>,
  endpoint: string,
): Promise<boolean> {
  if ((await store.removeDeliveries(endpoint, removedAtOnce)) > 0) return false;
  await store.removeSchedule(endpoint);
  return true;
}

/** Fails some deliveries that wait for a disabled endpoint. If there are none, forgets its failures, and returns true. */
async function failWaiting(
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

/** Returns the headers of a delivery. It is signed with each secret that is valid at this time, the current one first. */
function signEvent(
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

export type WebhookMetrics = ReturnType<typeof createWebhookMetrics>;

export function createWebhookMetrics(registry: Registry) {
  const registers = [registry];
  return {
    webhookAttempts: startAtZero(
      new Counter({
        name: 'svc_webhook_attempts_total',
        help: 'Attempts to deliver an event to a webhook endpoint, by outcome (delivered, failed)',
        labelNames: ['outcome'],
        registers,
      }),
      [{ outcome: 'delivered' }, { outcome: 'failed' }],
    ),
    webhooksDisabled: startAtZero(
      new Counter({
        name: 'svc_webhook_endpoints_disabled_total',
        help: 'Webhook endpoints that were disabled, by reason (failing, gone)',
        labelNames: ['reason'],
        registers,
      }),
      [{ reason: 'failing' }, { reason: 'gone' }],
    ),
    /** `look` is called at each scrape; undefined while the store does not answer. */
    observeWebhooks(look: () => Promise<number | undefined>): void {
      observeGauge(registry, {
        name: 'svc_webhook_due_age_seconds',
        help: 'How long the webhook endpoint that has been due for longest has waited for a worker; 0 if none is due',
        read: look,
      });
    },
  };
}
