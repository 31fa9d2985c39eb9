import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import type { WebhookSchedule } from '../../../shared/store/records/webhooks.ts';
import { createBackoff } from '../../../workers/upkeep/backoff.ts';
import { startDelivering } from '../../../workers/webhooks/start-delivering.ts';
import { scheduleOf } from '../../shared/store/webhook-records.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { ok, startWebhookReceiver } from '../../support/webhook-receiver.ts';
import { batchEvent, openDeliverySide } from './delivery-side.ts';

const backoff = () => createBackoff<string>({ now: () => performance.now(), random: () => 0 });

test('10,000 events reach 99 endpoints while another endpoint answers nothing', async (t) => {
  await using side = await openDeliverySide();
  const released = Promise.withResolvers<void>();
  let dead = '';
  let delivered = 0;
  const all = Promise.withResolvers<void>();
  await using receiver = await startWebhookReceiver((request, response, raw) => {
    if (request.path === dead) return void released.promise.then(() => ok(request, response, raw));
    delivered += 1;
    if (delivered === 99 * 100) all.resolve();
    ok(request, response, raw);
  });
  for (let index = 0; index < 100; index += 1) {
    const { endpoint } = await side.addEndpoint(receiver.port, {
      url: `http://127.0.0.1:${receiver.port}/${index}`,
    });
    if (index === 0) dead = '/0';
    await side.send(
      endpoint.id,
      Array.from({ length: 100 }, (_, event) => batchEvent(`batch_${index}_${event}`)),
    );
  }
  const { now, log } = side;
  const delivering = startDelivering({
    ...{ store: side.store.webhooks, deliverToEndpoint: side.worker('one'), backoff: backoff(), now, log },
    everyMs: 20,
  });
  await all.promise;
  const ids = receiver.received.filter(({ path }) => path !== dead).map(({ headers }) => headers['webhook-id']);
  t.is(new Set(ids).size, 9_900);
  t.is(receiver.received.filter(({ path }) => path === dead).length, 1, 'one at a time');
  released.resolve();
  await delivering[Symbol.asyncDispose]();
});

/** Schedules that are due, and deliveries that last until they are ended. */
function openHeld(schedules: readonly WebhookSchedule[]) {
  const running = new Map<string, () => void>();
  let looks = 0;
  const { log, lines } = recordedLog();
  const delivering = startDelivering({
    store: {
      listDueSchedules: async () => {
        looks += 1;
        return [...schedules];
      },
    },
    deliverToEndpoint: ({ endpoint }) => new Promise((resolve) => running.set(endpoint, () => resolve(true))),
    ...{ backoff: backoff(), now: async () => 0, log, everyMs: 60_000 },
  });
  return { running, delivering, lines, looks: () => looks };
}

test('at most 32 endpoints are sent to at a time, of which at most 16 are failing', async (t) => {
  const failing = Array.from({ length: 40 }, (_, index) => scheduleOf(`wh_failing_${index}`, { failures: 3 }));
  const working = Array.from({ length: 40 }, (_, index) => scheduleOf(`wh_${index}`));
  const { running, delivering } = openHeld([...failing, ...working]);
  while (running.size < 32) await nextTurn();
  await nextTurn();
  t.is(running.size, 32);
  t.is([...running.keys()].filter((endpoint) => endpoint.startsWith('wh_failing')).length, 16);
  const closing = delivering[Symbol.asyncDispose]();
  for (const end of running.values()) end();
  await closing;
});

test('an endpoint is not taken twice, and the next look follows when one has finished', async (t) => {
  const { running, delivering, looks } = openHeld([scheduleOf('wh_1')]);
  while (running.size < 1) await nextTurn();
  t.is(looks(), 1);
  const end = running.get('wh_1');
  running.clear();
  end?.();
  while (running.size < 1) await nextTurn();
  t.is(looks(), 2);
  const closing = delivering[Symbol.asyncDispose]();
  running.get('wh_1')?.();
  await closing;
});

test('endpoints that another worker sends to, or that cannot be sent to, do not hide those that are due after them', async (t) => {
  const { log } = recordedLog();
  const schedules = Array.from({ length: 700 }, (_, index) => scheduleOf(`wh_${String(index).padStart(3, '0')}`));
  const tried = new Map<string, number>();
  const sent = Promise.withResolvers<void>();
  const delivering = startDelivering({
    store: {
      async listDueSchedules(_at, { limit, after }) {
        const start = after === undefined ? 0 : schedules.findIndex(({ endpoint }) => endpoint === after.endpoint) + 1;
        return schedules.slice(start, start + limit);
      },
    },
    async deliverToEndpoint({ endpoint }) {
      tried.set(endpoint, (tried.get(endpoint) ?? 0) + 1);
      const index = Number(endpoint.slice(3));
      if (index === 699) sent.resolve();
      if (index >= 300) throw new Error('no key opens its secret');
      return false;
    },
    backoff: createBackoff<string>({ now: () => 0, random: () => 0 }), // never tried again
    ...{ now: async () => 0, log, everyMs: 1 },
  });
  await sent.promise;
  await delivering[Symbol.asyncDispose]();
  t.is(tried.get('wh_000'), 1, 'it is left to the other worker for a while');
});

test('an endpoint that another worker sends to is asked for again after two seconds', async (t) => {
  const { log } = recordedLog();
  let now = 0;
  let looks = 0;
  const asked: number[] = [];
  const again = Promise.withResolvers<void>();
  const delivering = startDelivering({
    store: {
      async listDueSchedules() {
        looks += 1;
        if (looks % 3 === 0) now += 1_000;
        return [scheduleOf('wh_1')];
      },
    },
    async deliverToEndpoint() {
      asked.push(now);
      if (asked.length === 2) again.resolve();
      return false;
    },
    ...{ backoff: backoff(), now: async () => now, log, everyMs: 1 },
  });
  await again.promise;
  await delivering[Symbol.asyncDispose]();
  t.deepEqual(asked.slice(0, 2), [0, 2_000]);
});

test('a failure is logged once, and the endpoint is tried again after a pause', async (t) => {
  const { log, lines } = recordedLog();
  let calls = 0;
  const second = Promise.withResolvers<void>();
  const delivering = startDelivering({
    store: { listDueSchedules: async () => [scheduleOf('wh_1')] },
    async deliverToEndpoint() {
      calls += 1;
      if (calls === 2) second.resolve();
      throw new Error('the store is unavailable');
    },
    ...{ backoff: backoff(), now: async () => 0, log, everyMs: 5 },
  });
  await second.promise;
  await delivering[Symbol.asyncDispose]();
  t.is(lines.filter(({ message }) => message.includes('could not be made')).length, 1);
});
