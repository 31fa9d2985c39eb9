import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import type { WebhookSchedule, WebhookStore } from '../../shared/store/records/webhooks.ts';
import type { Backoff } from '../upkeep/backoff.ts';
import type { DeliverToEndpoint } from './deliver-to-endpoint.ts';

const endpointsAtOnce = 32;
/** Endpoints that are failing leave room for the others, however long they take to answer. */
const failingAtOnce = 16;
const lookedAtMax = 500;
/** So long, an endpoint that another worker sends to is not asked for again. */
const heldMs = 2_000;
/** Longer than an attempt. */
const closeMs = 12_000;

type Deps = {
  store: Pick<WebhookStore, 'listDueSchedules'>;
  deliverToEndpoint: DeliverToEndpoint;
  backoff: Backoff<string>;
  now: () => Promise<number>;
  log: Pick<Log, 'warn'>;
  everyMs?: number;
};

/**
 * Looks every second for endpoints that are due, and sends to each of them. Looks again at once when one has finished. Disposing
 * of it waits for the attempts in progress.
 */
export function startDelivering(deps: Deps): AsyncDisposable {
  const { store, now, backoff, log, everyMs = 1_000 } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  const places = createPlaces();
  /** Endpoints that other workers send to, and until when they are left to them. */
  const held = new Map<string, number>();
  let lastSeen: WebhookSchedule | undefined;
  let woken = Promise.withResolvers<void>();

  async function deliver(schedule: WebhookSchedule, at: number): Promise<void> {
    const { endpoint } = schedule;
    try {
      const isMine = await deps.deliverToEndpoint(schedule, signal);
      backoff.succeeded(endpoint);
      if (!isMine) held.set(endpoint, at + heldMs);
      woken.resolve();
    } catch (error) {
      if (backoff.failed(endpoint))
        log.warn({ err: error, endpoint }, 'deliveries to a webhook endpoint could not be made; trying again');
    }
  }

  async function look(): Promise<void> {
    const at = await now();
    for (const [endpoint, until] of held) if (until <= at) held.delete(endpoint);
    const due = await store.listDueSchedules(new Date(at), { limit: lookedAtMax, after: lastSeen });
    for (const schedule of due) {
      const { endpoint } = schedule;
      if (held.has(endpoint) || backoff.waits(endpoint) || !places.hasRoomFor(schedule)) continue;
      places.take(schedule, deliver(schedule, at));
    }
    // Endpoints that cannot be sent to now, however many, must not hide those that are due after them.
    lastSeen = due.length === lookedAtMax && places.hasRoom() ? due.at(-1) : undefined;
  }

  async function repeat(): Promise<void> {
    while (!signal.aborted) {
      woken = Promise.withResolvers();
      try {
        await look();
        backoff.succeeded('looking');
      } catch (error) {
        if (backoff.failed('looking'))
          log.warn({ err: error }, 'webhook endpoints that are due could not be read; trying again');
      }
      await Promise.race([woken.promise, sleep(everyMs, undefined, { signal }).catch(() => {})]);
    }
  }

  const repeating = repeat();
  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(closeMs, repeating.then(places.allEnded));
    },
  };
}

/** The endpoints that this worker is sending to. */
function createPlaces() {
  const taken = new Map<string, { isFailing: boolean; ended: Promise<void> }>();
  const countFailing = () => [...taken.values()].filter(({ isFailing }) => isFailing).length;
  const hasRoom = () => taken.size < endpointsAtOnce;
  return {
    hasRoom,
    hasRoomFor({ endpoint, failures }: WebhookSchedule): boolean {
      if (taken.has(endpoint) || !hasRoom()) return false;
      return failures === 0 || countFailing() < failingAtOnce;
    },
    take({ endpoint, failures }: WebhookSchedule, delivering: Promise<void>): void {
      const ended = delivering.finally(() => taken.delete(endpoint));
      taken.set(endpoint, { isFailing: failures > 0, ended });
    },
    allEnded: async () => {
      await Promise.all([...taken.values()].map(({ ended }) => ended));
    },
  };
}
