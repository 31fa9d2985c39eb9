import test from 'ava';
import { type BatchEvent, nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Store } from '../../../shared/store/store.ts';
import { createAnnounceBatches } from '../../../workers/webhooks/start-announcing.ts';
import { batchOf } from '../../shared/store/batch-records.ts';
import { openDeliverySide, start } from './delivery-side.ts';

const now = new Date(start + 60_000);
const port = 9;
const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 1 };
const written: BatchEvent = { type: 'written', completed: 1, failed: 0, usage, errorCounts: {} };
const toEnd: Record<string, BatchEvent[]> = {
  'batch.failed': [{ type: 'refused', errors: [] }],
  'batch.completed': [{ type: 'validated', total: 1 }, { type: 'ran' }, written],
  'batch.expired': [{ type: 'expire' }, written],
  'batch.cancelled': [{ type: 'cancel' }, written],
};

/** Ends a new batch by these events. */
async function endBatch({ batches }: Store, events: readonly BatchEvent[], account = 'user:ann'): Promise<string> {
  const batch = batchOf({ state: 'validating', account });
  await batches.insertBatch(batch);
  for (const event of events) {
    await batches.changeBatch(batch.id, (found) => {
      const next = found && nextBatch(found, event, new Date(start));
      return { result: undefined, ...(next && { next }) };
    });
  }
  return batch.id;
}

for (const [type, events] of Object.entries(toEnd)) {
  test(`a batch that ends by ${events.map((event) => event.type).join(', ')} has the event ${type}`, async (t) => {
    await using side = await openDeliverySide();
    const { endpoint } = await side.addEndpoint(port, { events: [type] });
    await side.addEndpoint(port, { events: Object.keys(toEnd).filter((other) => other !== type) });
    await side.addEndpoint(port, { enabled: false });
    const id = await endBatch(side.store, events);
    t.false(await createAnnounceBatches(side.store)(now));
    const [delivery, ...others] = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 });
    t.deepEqual(others, []);
    t.like(delivery, { type, state: 'waiting', account: 'user:ann' });
    t.deepEqual(JSON.parse(delivery?.payload ?? ''), {
      ...{ id: delivery?.event, object: 'event', created_at: start / 1_000, type, data: { id } },
    });
    t.deepEqual(await side.store.webhooks.listDueSchedules(now, { limit: 9 }), [
      await side.store.webhooks.findSchedule(endpoint.id),
    ]);
    t.deepEqual(await side.store.batches.listEndedBatches(9), []);
  });
}

const steps = ['listEndedBatches', 'insertDeliveries', 'changeSchedule', 'forgetEndedBatches'];

for (const step of steps) {
  test(`a process that ends after ${step} loses no event, and none has two deliveries`, async (t) => {
    await using side = await openDeliverySide();
    const { endpoint } = await side.addEndpoint(port);
    const ids = [
      await endBatch(side.store, toEnd['batch.failed'] ?? []),
      await endBatch(side.store, toEnd['batch.expired'] ?? []),
    ];
    const dying = { batches: failAfter(side.store.batches, step), webhooks: failAfter(side.store.webhooks, step) };
    await t.throwsAsync(createAnnounceBatches(dying)(now));
    await createAnnounceBatches(side.store)(now);
    await createAnnounceBatches(side.store)(now);
    const deliveries = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 });
    t.deepEqual(deliveries.map(({ payload }) => JSON.parse(payload).data.id).sort(), ids.sort());
    t.is((await side.store.webhooks.listDueSchedules(now, { limit: 9 })).length, 1);
  });
}

test('many batches are announced page by page', async (t) => {
  await using side = await openDeliverySide();
  const { endpoint } = await side.addEndpoint(port);
  for (let count = 0; count < 101; count += 1) await endBatch(side.store, toEnd['batch.failed'] ?? []);
  const announce = createAnnounceBatches(side.store);
  t.true(await announce(now));
  t.false(await announce(now));
  t.is((await side.store.webhooks.listDeliveries(endpoint.id, { limit: 200 })).length, 101);
});

test('accounts get only their own events, and an account without endpoints gets none', async (t) => {
  await using side = await openDeliverySide();
  const { endpoint } = await side.addEndpoint(port);
  await endBatch(side.store, toEnd['batch.failed'] ?? [], 'user:bob');
  await createAnnounceBatches(side.store)(now);
  t.deepEqual(await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 }), []);
  t.deepEqual(await side.store.batches.listEndedBatches(9), []);
});

/** The process ends once this method has returned. */
function failAfter<Part extends object>(part: Part, step: string): Part {
  return new Proxy(part, {
    get(target, name, receiver) {
      const method: unknown = Reflect.get(target, name, receiver);
      if (name !== step || typeof method !== 'function') return method;
      return async (...args: unknown[]) => {
        await method.apply(target, args);
        throw new Error('the process has ended');
      };
    },
  });
}
