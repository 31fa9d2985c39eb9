import test from 'ava';
import OpenAI from 'openai';
import { Webhook } from 'standardwebhooks';
import type { Delivery, WebhookStore } from '../../../shared/store/records/webhooks.ts';
import { makeDue, sendEvents, toSendAgain } from '../../../shared/webhooks/send-events.ts';
import { newWebhookSecret } from '../../../shared/webhooks/webhook-secrets.ts';
import { answerWith, ok, startWebhookReceiver } from '../../support/webhook-receiver.ts';
import { account, batchEvent, openDeliverySide, secrets, start } from './delivery-side.ts';

const day = 86_400_000;

test('a delivery is verified by the OpenAI SDK and by the library for Standard Webhooks', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver();
  side.clock.now = Date.now(); // both compare the time
  const { endpoint, secret } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [batchEvent('batch_1')]);
  await side.deliverDue();
  const [got] = receiver.received;
  const { body = '', headers = {} } = got ?? {};
  const { id } = batchEvent('batch_1');
  const event = { id, object: 'event', created_at: start / 1_000, type: 'batch.completed', data: { id: 'batch_1' } };
  const given = headers as Record<string, string>;
  t.deepEqual(new Webhook(secret).verify(body, given), event);
  const client = new OpenAI({ apiKey: 'unused', webhookSecret: secret });
  t.deepEqual((await client.webhooks.unwrap(body, new Headers(given))) as unknown, event);
  t.is(headers['webhook-id'], id);
  t.is(headers['content-type'], 'application/json');
  t.throws(() => new Webhook(newWebhookSecret()).verify(body, given));
  t.throws(() => new Webhook(secret).verify(`${body} `, given));
  t.like(await side.store.webhooks.findDelivery(`${id}:${endpoint.id}`), { state: 'delivered', attemptCount: 1 });
  t.deepEqual(await side.deliverDue(), [], 'nothing is due any more');
  t.false(JSON.stringify(side.lines).includes(secret.slice(6)));
  t.false(JSON.stringify(side.lines).includes('batch_1'), 'no payload is logged');
});

test('for a day after a rotation, both secrets sign; then only the new one', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver();
  side.clock.now = Date.now();
  const { endpoint, secret: old } = await side.addEndpoint(receiver.port);
  const secret = newWebhookSecret();
  const until = new Date(side.clock.now + day);
  const [before] = endpoint.secrets;
  const rotated = [{ sealed: secrets.seal(endpoint.id, secret) }, { sealed: before?.sealed ?? '', until }];
  await side.store.webhooks.changeWebhooks(account, (found) => ({
    result: undefined,
    ...(found && { next: { ...found, endpoints: [{ ...endpoint, secrets: rotated }] } }),
  }));
  await side.send(endpoint.id, [batchEvent('batch_1')]);
  await side.deliverDue();
  const both = receiver.received[0];
  const headersOf = (of: typeof both) => of?.headers as Record<string, string>;
  t.is(headersOf(both)['webhook-signature']?.split(' ').length, 2);
  for (const each of [old, secret]) {
    t.notThrows(() => new Webhook(each).verify(both?.body ?? '', headersOf(both)));
    const client = new OpenAI({ apiKey: 'unused', webhookSecret: each });
    await t.notThrowsAsync(client.webhooks.unwrap(both?.body ?? '', new Headers(headersOf(both))));
  }

  side.clock.now += day;
  await side.send(endpoint.id, [batchEvent('batch_2')]);
  await side.deliverDue();
  t.is(headersOf(receiver.received[1])['webhook-signature']?.split(' ').length, 1);
});

test('a failure ends the round and pauses the endpoint; the same event comes again with the same id', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver(answerWith(500));
  const { endpoint } = await side.addEndpoint(receiver.port);
  const events = [batchEvent('batch_1'), batchEvent('batch_2'), batchEvent('batch_3')];
  await side.send(endpoint.id, events);
  await side.deliverDue();
  t.is(receiver.received.length, 1);
  t.deepEqual(await side.deliverDue(), []);
  side.clock.now += 4_999;
  t.deepEqual(await side.deliverDue(), []);
  side.clock.now += 1;
  receiver.answer(ok);
  await side.deliverDue();
  const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
  t.is(ids.length, 4, 'a success continues the round');
  t.is(ids.filter((id) => id === ids[0]).length, 2);
  t.deepEqual([...new Set(ids)].sort(), events.map(({ id }) => id).sort());
  t.like(await side.store.webhooks.findSchedule(endpoint.id), { failures: 0 });
});

test('an event that always fails does not keep the others', async (t) => {
  await using side = await openDeliverySide();
  const bad = batchEvent('bad');
  await using receiver = await startWebhookReceiver((request, response, raw) =>
    answerWith(request.headers['webhook-id'] === bad.id ? 500 : 200)(request, response, raw),
  );
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [bad]);
  side.clock.now += 1;
  await side.send(endpoint.id, [batchEvent('batch_1'), batchEvent('batch_2')]);
  await side.deliverDue();
  side.clock.now += 5_000;
  await side.deliverDue();
  const delivered = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9, state: 'delivered' });
  t.is(delivered.length, 2);
  t.like(await side.store.webhooks.findDelivery(`${bad.id}:${endpoint.id}`), { state: 'waiting' });
});

test('410 disables the endpoint at once, and what waits fails but can be sent again once it is enabled', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver(answerWith(410));
  const { endpoint } = await side.addEndpoint(receiver.port);
  const { webhooks } = side.store;
  await side.send(endpoint.id, [batchEvent('batch_1'), batchEvent('batch_2')]);
  await side.deliverDue();
  await side.deliverDue();
  t.is(receiver.received.length, 1);
  t.like((await webhooks.findWebhooks(account))?.endpoints[0], { enabled: false, disabledReason: 'gone' });
  const failed = await webhooks.listDeliveries(endpoint.id, { limit: 9, state: 'failed' });
  t.deepEqual(
    failed.map(({ reason }) => reason),
    ['the endpoint is disabled', 'the endpoint is disabled'],
  );
  t.deepEqual(await side.deliverDue(), []);
  t.is(side.counts['disabled gone'], 1);

  receiver.answer(ok);
  await webhooks.changeWebhooks(account, (found) => ({
    result: undefined,
    ...(found && { next: { ...found, endpoints: [endpoint] } }),
  }));
  for (const { id } of failed) {
    await webhooks.changeDelivery(id, (found) => ({ result: undefined, ...(found && { next: toSendAgain(found) }) }));
  }
  await makeDue(webhooks, { endpoint: endpoint.id, account, now: new Date(side.clock.now), isUrgent: true });
  await side.deliverDue();
  t.is((await webhooks.listDeliveries(endpoint.id, { limit: 9, state: 'delivered' })).length, 2);
});

test('an endpoint that fails for three days is disabled', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver(answerWith(503));
  const { endpoint } = await side.addEndpoint(receiver.port, { enabledAt: new Date(start) });
  await side.send(endpoint.id, [batchEvent('batch_1'), batchEvent('batch_2')]);
  let isEnabled = true;
  while (isEnabled && side.clock.now - start < 5 * day) {
    await side.deliverDue();
    isEnabled = (await side.store.webhooks.findWebhooks(account))?.endpoints[0]?.enabled === true;
    side.clock.now += 3_600_000;
  }
  t.false(isEnabled);
  const heldMs = side.clock.now - start;
  t.true(heldMs >= 3 * day && heldMs < 4 * day);
  t.true(receiver.received.length >= 10 && receiver.received.length <= 30);
  t.is(side.counts['disabled failing'], 1);
});

test('a deleted endpoint gets nothing, and its deliveries are removed', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver();
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [batchEvent('batch_1')]);
  await side.store.webhooks.changeWebhooks(account, (found) => ({
    result: undefined,
    ...(found && { next: { ...found, endpoints: [] } }),
  }));
  await side.deliverDue();
  t.is(receiver.received.length, 0);
  t.deepEqual(await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 }), []);
  t.is(await side.store.webhooks.findSchedule(endpoint.id), undefined);
});

test('while one worker sends to an endpoint, no other does', async (t) => {
  await using side = await openDeliverySide();
  const held = Promise.withResolvers<void>();
  await using receiver = await startWebhookReceiver((request, response, raw) => {
    void held.promise.then(() => ok(request, response, raw));
  });
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [batchEvent('batch_1'), batchEvent('batch_2')]);
  const first = side.deliverDue();
  await receiver.arrived(1);
  const [schedule] = await side.store.webhooks.listDueSchedules(new Date(side.clock.now), { limit: 1 });
  if (schedule === undefined) return t.fail('it is due until the worker has finished');
  t.false(await side.worker('two')(schedule, new AbortController().signal));
  t.is(receiver.received.length, 1);
  held.resolve();
  await first;
  t.is(receiver.received.length, 2);
  t.is(side.locks.size, 0);
});

test('an event that is added while the endpoint is found idle is not forgotten', async (t) => {
  await using side = await openDeliverySide();
  await using receiver = await startWebhookReceiver();
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [batchEvent('batch_1')]);
  let added = false;
  const store: WebhookStore = {
    ...side.store.webhooks,
    async listWaiting(...page) {
      const found = await side.store.webhooks.listWaiting(...page);
      if (found.length === 0 && !added) {
        added = true;
        await side.send(endpoint.id, [batchEvent('batch_2')]);
      }
      return found;
    },
  };
  await side.deliverDue(side.worker('one', { store }));
  await side.deliverDue();
  t.is(receiver.received.length, 2);
});

/** A receiver that does this before it answers. */
const during = (status: number, work: () => Promise<unknown>) =>
  startWebhookReceiver((request, response, raw) => {
    void work().then(() => answerWith(status)(request, response, raw));
  });

test('a delivery that is to be sent again while it is sent, is sent again', async (t) => {
  await using side = await openDeliverySide();
  const { webhooks } = side.store;
  let work = async () => {};
  await using receiver = await during(200, () => work());
  const { endpoint } = await side.addEndpoint(receiver.port);
  const event = batchEvent('batch_1');
  await side.send(endpoint.id, [event]);
  work = async () => {
    work = async () => {};
    const again = (found?: Delivery) => ({ result: undefined, ...(found && { next: toSendAgain(found) }) });
    await webhooks.changeDelivery(`${event.id}:${endpoint.id}`, again);
  };
  await side.deliverDue();
  t.is(receiver.received.length, 2);
  t.like(await webhooks.findDelivery(`${event.id}:${endpoint.id}`), { state: 'delivered', attemptCount: 2 });
});

test('410 of an old address does not disable the endpoint that has got another address meanwhile', async (t) => {
  await using side = await openDeliverySide();
  const { webhooks } = side.store;
  let work = async () => {};
  await using receiver = await during(410, () => work());
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [batchEvent('batch_1')]);
  const url = `http://127.0.0.1:${receiver.port}/other`;
  const moved = { ...endpoint, url, enabledAt: new Date(side.clock.now) };
  work = () =>
    webhooks.changeWebhooks(account, (found) => ({
      result: undefined,
      ...(found && { next: { ...found, endpoints: [moved] } }),
    }));
  await side.deliverDue();
  t.deepEqual((await webhooks.findWebhooks(account))?.endpoints, [moved]);
  t.is(side.counts['disabled gone'], undefined);
});

test('a test that is sent while an attempt fails does not wait for the pause', async (t) => {
  await using side = await openDeliverySide();
  let work = async () => {};
  await using receiver = await during(500, () => work());
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(endpoint.id, [batchEvent('batch_1')]);
  work = async () => {
    work = async () => {};
    const sending = { endpoint: endpoint.id, events: [batchEvent('test')], isUrgent: true };
    await sendEvents(side.store.webhooks, { ...sending, now: new Date(side.clock.now) });
  };
  await side.deliverDue();
  t.is(receiver.received.length, 1);
  await side.deliverDue();
  t.is(receiver.received[1]?.headers['webhook-id'], batchEvent('test').id);
  t.deepEqual(await side.deliverDue(), [], 'then the endpoint pauses');
});

test('after 100 deliveries, or five seconds, other endpoints have their turn', async (t) => {
  await using side = await openDeliverySide();
  let work = async () => {};
  await using receiver = await during(200, () => work());
  const { endpoint } = await side.addEndpoint(receiver.port);
  await side.send(
    endpoint.id,
    Array.from({ length: 102 }, (_, index) => batchEvent(`batch_${index}`)),
  );
  side.clock.now += 1;
  await side.deliverDue();
  t.is(receiver.received.length, 100);
  const dueAt = new Date(side.clock.now);
  t.like(await side.store.webhooks.findSchedule(endpoint.id), { dueAt }, 'it comes after those that were due before');
  work = async () => {
    side.clock.now += 5_001;
  };
  await side.deliverDue();
  t.is(receiver.received.length, 101);
  await side.deliverDue();
  t.is(receiver.received.length, 102);
});

test('an endpoint that is enabled while its deliveries fail gets the rest', async (t) => {
  await using side = await openDeliverySide();
  const { webhooks } = side.store;
  await using receiver = await startWebhookReceiver();
  const { endpoint } = await side.addEndpoint(receiver.port, { enabled: false });
  await side.send(
    endpoint.id,
    Array.from({ length: 150 }, (_, index) => batchEvent(`batch_${index}`)),
  );
  let pieces = 0;
  const store: WebhookStore = {
    ...webhooks,
    async listWaiting(id, limit) {
      pieces += 1;
      if (pieces === 1) {
        await webhooks.changeWebhooks(account, (found) => ({
          result: undefined,
          ...(found && { next: { ...found, endpoints: [{ ...endpoint, enabled: true }] } }),
        }));
      }
      return webhooks.listWaiting(id, limit);
    },
  };
  await side.deliverDue(side.worker('one', { store }));
  t.is(receiver.received.length, 50);
});

test('an endpoint that was deleted is cleared in pieces', async (t) => {
  await using side = await openDeliverySide();
  await side.send(
    'wh_deleted',
    Array.from({ length: 1_001 }, (_, index) => batchEvent(`batch_${index}`)),
  );
  await side.deliverDue();
  t.is((await side.store.webhooks.listDeliveries('wh_deleted', { limit: 9 })).length, 0);
  t.is(await side.store.webhooks.findSchedule('wh_deleted'), undefined);
  t.is(side.locks.size, 0);
});

const steps = ['changeDelivery', 'changeSchedule', 'listWaiting', 'findSchedule', 'findWebhooks'] as const;

for (const step of steps) {
  for (const when of ['before', 'after'] as const) {
    test(`a worker that ends ${when} ${step} loses nothing: every event arrives, with the same id if again`, async (t) => {
      await using side = await openDeliverySide();
      let failing = 2;
      await using receiver = await startWebhookReceiver((request, response, raw) => {
        failing -= 1;
        answerWith(failing === 0 ? 500 : 200)(request, response, raw);
      });
      const { endpoint } = await side.addEndpoint(receiver.port);
      const events = [batchEvent('batch_1'), batchEvent('batch_2'), batchEvent('batch_3')];
      await side.send(endpoint.id, events);
      // Each worker ends at its n-th call of this step, and its lock expires.
      for (let call = 1; call <= 8; call += 1) {
        const store = dyingAt(side.store.webhooks, step, { when, call });
        await side.deliverDue(side.worker(`worker ${call}`, { store })).catch(() => {});
        side.locks.clear();
        side.clock.now += 60_000;
      }
      await side.deliverDue();
      const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
      t.deepEqual([...new Set(ids)].sort(), events.map(({ id }) => id).sort());
      const delivered = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9, state: 'delivered' });
      t.is(delivered.length, 3);
    });
  }
}

/** A store whose process ends at the n-th call of this method: from then on, every call fails. */
function dyingAt(
  store: WebhookStore,
  step: (typeof steps)[number],
  { when, call }: { when: 'before' | 'after'; call: number },
): WebhookStore {
  let calls = 0;
  let isDead = false;
  const died = () => new Error('the process has ended');
  return new Proxy(store, {
    get(target, name, receiver) {
      const method = Reflect.get(target, name, receiver);
      return async (...args: unknown[]) => {
        if (isDead) throw died();
        if (name === step) calls += 1;
        const isLast = name === step && calls === call;
        if (isLast && when === 'before') isDead = true;
        if (isDead) throw died();
        const result = await method.apply(target, args);
        if (isLast) isDead = true;
        if (isDead) throw died();
        return result;
      };
    },
  });
}
