import test from 'ava';
import { createKey, revokeKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { type BatchEvent, nextBatch } from '../../../shared/batches/batch-states.ts';
import type { AccountStore } from '../../../shared/store/records/account-store.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import {
  announceBatches,
  announceExpiringKeys,
  removeOldDeliveries,
} from '../../../workers/webhooks/start-announcing.ts';
import { batchOf } from '../../shared/store/batch-records.ts';
import { newKey } from '../../shared/store/store-contract.ts';
import { deliveryOf, webhooksOf } from '../../shared/store/webhook-records.ts';
import { account, openDeliverySide, start } from './delivery-side.ts';

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
    t.false(await announceBatches(side.store, now));
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
    await t.throwsAsync(announceBatches(dying, now));
    await announceBatches(side.store, now);
    await announceBatches(side.store, now);
    const deliveries = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 });
    t.deepEqual(deliveries.map(({ payload }) => JSON.parse(payload).data.id).sort(), ids.sort());
    t.is((await side.store.webhooks.listDueSchedules(now, { limit: 9 })).length, 1);
  });
}

test('many batches are announced page by page', async (t) => {
  await using side = await openDeliverySide();
  const { endpoint } = await side.addEndpoint(port);
  for (let count = 0; count < 101; count += 1) await endBatch(side.store, toEnd['batch.failed'] ?? []);
  t.true(await announceBatches(side.store, now));
  t.false(await announceBatches(side.store, now));
  t.is((await side.store.webhooks.listDeliveries(endpoint.id, { limit: 200 })).length, 101);
});

test('accounts get only their own events, and an account without endpoints gets none', async (t) => {
  await using side = await openDeliverySide();
  const { endpoint } = await side.addEndpoint(port);
  await endBatch(side.store, toEnd['batch.failed'] ?? [], 'user:bob');
  await announceBatches(side.store, now);
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

const day = 86_400_000;
const { signal } = new AbortController();

test('a key that expires within seven days has one event for each expiry, and no other key has', async (t) => {
  await using side = await openDeliverySide();
  const { endpoint } = await side.addEndpoint(port);
  const addKey = (name: string, leftMs: number | undefined) => {
    const fields = { name, ...(leftMs !== undefined && { expiresAt: new Date(start + leftMs) }) };
    const key = newKey();
    return side.store.accounts
      .changeAccount(account, createKey({ account, plan: 'free', key, fields }))
      .then(() => key.id);
  };
  const soon = await addKey('soon', 7 * day);
  await addKey('later', 7 * day + 1_000);
  await addKey('never', undefined);
  await addKey('over', 0);
  const [old, ended] = [await addKey('rotated', day), await addKey('revoked', 2 * day)];
  const replaced = { named: { id: old }, key: newKey(), graceMs: 9 * day };
  await side.store.accounts.changeAccount(account, rotateKey(replaced));
  const revoke = (id: string) => revokeKey({ named: { id }, at: new Date(start) });
  await side.store.accounts.changeAccount(account, revoke(ended));
  await side.store.accounts.changeAccount(account, revoke(replaced.key.id));
  const told = async (at: number) => {
    await announceExpiringKeys(side.store, { now: new Date(at), signal });
    const deliveries = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 });
    return deliveries.map(({ payload }) => JSON.parse(payload).data);
  };
  const first = [{ id: soon, name: 'soon', expires_at: (start + 7 * day) / 1_000 }];
  t.deepEqual(await told(start), first);
  t.deepEqual(await told(start + 500), first, 'not again');
  t.is((await told(start + 1_000)).length, 2);
  t.is((await told(start + 8 * day)).length, 2);

  // The owner gives the key a later end: that is another expiry.
  await side.store.accounts.changeAccount(account, (found) => {
    if (found === undefined) return { result: undefined };
    const keys = found.keys.map((key) => (key.id === soon ? { ...key, expiresAt: new Date(start + 20 * day) } : key));
    return { result: undefined, next: { ...found, keys, version: found.version + 1 } };
  });
  t.is((await told(start + 12 * day)).length, 2);
  t.is((await told(start + 13 * day)).length, 3);
});

test('all accounts are looked at, page by page, until the task is ended', async (t) => {
  const accounts = Array.from({ length: 250 }, (_, index) => `user:${String(index).padStart(3, '0')}`);
  const lookedAt: string[] = [];
  const ending = new AbortController();
  const store = {
    accounts: {
      findAccount: async (id: string) => {
        lookedAt.push(id);
        if (id === 'user:240') ending.abort();
        return undefined;
      },
    } as unknown as AccountStore,
    webhooks: {
      listWebhooks: async ({ after, limit }: { after: string; limit: number }) =>
        accounts
          .filter((each) => each > after)
          .slice(0, limit)
          .map((each) => webhooksOf(each)),
    } as never, // it sends nothing
  };
  await announceExpiringKeys(store, { now: new Date(start), signal: ending.signal });
  t.deepEqual(lookedAt, accounts.slice(0, 241));
});

test('deliveries are kept for thirty days', async (t) => {
  await using side = await openDeliverySide();
  const { webhooks } = side.store;
  const of = (ageMs: number) => deliveryOf({ endpoint: 'wh_old', createdAt: new Date(start - ageMs) });
  await webhooks.insertDeliveries([of(30 * day), ...Array.from({ length: 700 }, () => of(30 * day + 1))]);
  await removeOldDeliveries(webhooks, { now: new Date(start), signal });
  t.is((await webhooks.listDeliveries('wh_old', { limit: 9 })).length, 1);
});
