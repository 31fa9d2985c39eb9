import type { ExecutionContext } from 'ava';
import { nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { Delivery, WebhookSchedule } from '../../../shared/store/records/webhooks.ts';
import { batchOf } from './batch-records.ts';
import { type Contract, provesOnStore } from './store-contract.ts';
import { deliveryOf, scheduleOf, webhooksOf } from './webhook-records.ts';

/** The guarantees of every store for webhook endpoints, deliveries and schedules, and for batches whose event waits. */
export function testWebhooksContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('the endpoints of an account are created, changed with the next version, and found', keepsWebhooks);
  prove('accounts that have endpoints are found by their ids, and listed page by page', listsWebhooks);
  prove('a delivery is inserted once, and found as it was', keepsDelivery);
  prove('deliveries are listed by endpoint and state, newest first, page by page', listsDeliveries);
  prove('deliveries that wait are listed by their time, and counted up to a bound', listsWaiting);
  prove('deliveries are removed by endpoint and by age, in pieces', removesDeliveries);
  prove(
    'schedules are listed if they are due, the longest due first, page by page, and others never',
    listsDueSchedules,
  );
  prove('only the change that ends a batch marks it, until it is forgotten', marksEndedBatches);
}

/** The same under concurrency, for serial tests, because they make many calls at once. */
export function testWebhookRacesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('of 40 endpoints that are added at once, exactly the bound is added', boundsEndpoints);
  prove('each of 60 concurrent changes of a schedule is made on the result of the one before it', changesInTurn);
}

async function keepsWebhooks(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  t.is(await webhooks.findWebhooks('user:ann'), undefined);
  t.is(await webhooks.changeWebhooks('user:ann', (found) => ({ result: found?.version })), undefined);
  t.is(await webhooks.findWebhooks('user:ann'), undefined, 'nothing is written without a change');
  const first = webhooksOf('user:ann');
  await webhooks.changeWebhooks('user:ann', () => ({ result: undefined, next: { ...first, version: 7 } }));
  t.deepEqual(await webhooks.findWebhooks('user:ann'), first);
  const disabled = { ...first.endpoints[0], enabled: false, disabledReason: 'gone' } as (typeof first.endpoints)[0];
  const change = { result: 'done', next: { ...first, endpoints: [disabled] } };
  t.is(await webhooks.changeWebhooks('user:ann', () => change), 'done');
  t.deepEqual(await webhooks.findWebhooks('user:ann'), { ...first, endpoints: [disabled], version: 2 });
  const failing = webhooks.changeWebhooks('user:ann', () => {
    throw new RangeError('a decision that fails');
  });
  await t.throwsAsync(failing, { instanceOf: RangeError });
}

async function listsWebhooks(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  for (const name of ['c', 'a', 'b']) {
    await webhooks.changeWebhooks(`user:${name}`, () => ({ result: undefined, next: webhooksOf(`user:${name}`) }));
  }
  const names = (found: readonly { account: string }[]) => found.map(({ account }) => account);
  t.deepEqual(names(await webhooks.listWebhooks({ after: '', limit: 2 })), ['user:a', 'user:b']);
  t.deepEqual(names(await webhooks.listWebhooks({ after: 'user:b', limit: 2 })), ['user:c']);
  t.deepEqual(names(await webhooks.findWebhooksOf(['user:c', 'user:a', 'user:x'])).sort(), ['user:a', 'user:c']);
  t.deepEqual(await webhooks.findWebhooksOf([]), []);
}

async function keepsDelivery(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const delivery = deliveryOf({ payload: '{"名前":"$set"}' });
  t.is(await webhooks.findDelivery(delivery.id), undefined);
  await webhooks.insertDeliveries([{ ...delivery, secret: 'not a field' } as Delivery]);
  await webhooks.insertDeliveries([{ ...delivery, payload: 'another' }, deliveryOf({ endpoint: 'wh_other' })]);
  t.deepEqual(await webhooks.findDelivery(delivery.id), delivery);
  const { nextAt: _, ...others } = delivery;
  const attempts = [{ at: new Date(9), ms: 5, status: 200 }];
  const delivered: Delivery = { ...others, state: 'delivered', attempts, attemptCount: 1 };
  await webhooks.changeDelivery(delivery.id, () => ({ result: undefined, next: delivered }));
  t.deepEqual(await webhooks.findDelivery(delivery.id), { ...delivered, version: 2 });
  t.deepEqual(await webhooks.listWaiting(delivery.endpoint, 10), [], 'it does not wait any more');
  await webhooks.insertDeliveries([delivery]);
  t.is((await webhooks.findDelivery(delivery.id))?.state, 'delivered');
}

async function listsDeliveries(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const endpoint = 'wh_listed';
  const all = Array.from({ length: 250 }, (_, index) => {
    // Two of each time.
    const createdAt = new Date(1_000 + Math.floor(index / 2));
    const id = `evt_${String(index).padStart(4, '0')}:${endpoint}`;
    return deliveryOf({ id, endpoint, createdAt, ...(index % 3 === 0 && { state: 'failed' as const }) });
  });
  await webhooks.insertDeliveries([...all, deliveryOf()]);
  const newest = all.toReversed();
  const ids = (found: readonly Delivery[]) => found.map(({ id }) => id);
  t.deepEqual(ids(await webhooks.listDeliveries(endpoint, { limit: 300 })), ids(newest));
  const failed = newest.filter(({ state }) => state === 'failed');
  t.deepEqual(ids(await webhooks.listDeliveries(endpoint, { limit: 300, state: 'failed' })), ids(failed));
  for (const after of [1, 2, 101, 248, 249]) {
    const page = await webhooks.listDeliveries(endpoint, { limit: 3, after: newest[after]?.id });
    t.deepEqual(ids(page), ids(newest.slice(after + 1, after + 4)));
  }
  t.deepEqual(await webhooks.listDeliveries(endpoint, { limit: 3, after: 'evt_unknown:wh_listed' }), []);
  t.deepEqual(await webhooks.listDeliveries('wh_other', { limit: 3, after: newest[0]?.id }), []);
}

async function listsWaiting(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const endpoint = 'wh_waiting';
  const times = [5, 3, 9, 1];
  const waiting = times.map((at) => deliveryOf({ endpoint, nextAt: new Date(at) }));
  const { nextAt: _, ...over } = deliveryOf({ endpoint, state: 'failed' });
  await webhooks.insertDeliveries([...waiting, over, deliveryOf()]);
  const found = await webhooks.listWaiting(endpoint, 3);
  t.deepEqual(
    found.map(({ nextAt }) => nextAt?.getTime()),
    [1, 3, 5],
  );
  t.is(await webhooks.countWaiting(endpoint, 10), 4);
  t.is(await webhooks.countWaiting(endpoint, 4), 4);
  t.is(await webhooks.countWaiting(endpoint, 2), 2);
  t.is(await webhooks.countWaiting('wh_none', 2), 0);
}

async function removesDeliveries(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const of = (endpoint: string, at: number) => deliveryOf({ endpoint, createdAt: new Date(at) });
  await webhooks.insertDeliveries([of('wh_a', 1), of('wh_a', 2), of('wh_a', 3), of('wh_b', 1), of('wh_b', 5)]);
  t.is(await webhooks.removeDeliveries('wh_a', 2), 2);
  t.is(await webhooks.removeDeliveries('wh_a', 2), 1);
  t.is(await webhooks.removeDeliveries('wh_a', 2), 0);
  t.is((await webhooks.listDeliveries('wh_b', { limit: 9 })).length, 2);
  t.is(await webhooks.removeDeliveriesBefore(new Date(1), 9), 0);
  t.is(await webhooks.removeDeliveriesBefore(new Date(5), 9), 1);
  t.deepEqual(
    (await webhooks.listDeliveries('wh_b', { limit: 9 })).map(({ createdAt }) => createdAt),
    [new Date(5)],
  );
}

async function listsDueSchedules(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const write = (next: WebhookSchedule) => webhooks.changeSchedule(next.endpoint, () => ({ result: undefined, next }));
  for (const at of [4, 2, 6]) await write(scheduleOf(`wh_${at}`, { dueAt: new Date(at) }));
  await write(scheduleOf('wh_idle'));
  const due = async (at: number, limit = 9, after?: WebhookSchedule) =>
    (await webhooks.listDueSchedules(new Date(at), { limit, after })).map(({ endpoint }) => endpoint);
  t.deepEqual(await due(1), []);
  t.deepEqual(await due(4), ['wh_2', 'wh_4']);
  t.deepEqual(await due(9, 2), ['wh_2', 'wh_4']);
  await write(scheduleOf('wh_5', { dueAt: new Date(4) }));
  const after = async (endpoint: string) => due(9, 9, await webhooks.findSchedule(endpoint));
  t.deepEqual(await after('wh_2'), ['wh_4', 'wh_5', 'wh_6']);
  t.deepEqual(await after('wh_4'), ['wh_5', 'wh_6'], 'of those due at the same time, by id');
  t.deepEqual(await after('wh_6'), []);
  await webhooks.removeSchedule('wh_5');
  await write(scheduleOf('wh_2'));
  t.deepEqual(await due(9), ['wh_4', 'wh_6']);
  t.deepEqual(await webhooks.findSchedule('wh_2'), scheduleOf('wh_2', { version: 2 }));
  await webhooks.removeSchedule('wh_4');
  await webhooks.removeSchedule('wh_4');
  t.deepEqual(await due(9), ['wh_6']);
  t.is(await webhooks.findSchedule('wh_4'), undefined);
}

async function marksEndedBatches(t: ExecutionContext, { batches }: Store): Promise<void> {
  const at = new Date(5);
  const [failed, running] = [batchOf({ state: 'validating' }), batchOf({ state: 'validating' })];
  for (const each of [failed, running]) await batches.insertBatch(each);
  const move = (id: string, event: Parameters<typeof nextBatch>[1]) =>
    batches.changeBatch(id, (found) => {
      const next = found && nextBatch(found, event, at);
      return { result: undefined, ...(next && { next }) };
    });
  await move(running.id, { type: 'validated', total: 1 });
  t.deepEqual(await batches.listEndedBatches(9), []);
  await move(failed.id, { type: 'refused', errors: [] });
  await move(running.id, { type: 'ran' });
  t.deepEqual(await batches.listEndedBatches(9), [await batches.findBatch(failed.id)]);
  const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 1 };
  await move(running.id, { type: 'written', completed: 1, failed: 0, usage, errorCounts: {} });
  await move(running.id, { type: 'cleared' });
  const both = [failed.id, running.id].sort();
  t.deepEqual(
    (await batches.listEndedBatches(9)).map(({ id }) => id),
    both,
  );
  t.is((await batches.listEndedBatches(1)).length, 1);
  await batches.forgetEndedBatches([failed.id, 'batch_unknown']);
  await batches.forgetEndedBatches([failed.id]);
  await move(failed.id, { type: 'cleared' });
  t.deepEqual(await batches.listEndedBatches(9), [await batches.findBatch(running.id)]);
  t.is((await batches.findBatch(running.id))?.open, false);
}

async function boundsEndpoints(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const [endpoint] = webhooksOf('user:ann').endpoints;
  if (endpoint === undefined) throw new Error('the sample has no endpoint');
  const add = (id: string) =>
    webhooks.changeWebhooks('user:ann', (found = { account: 'user:ann', endpoints: [], version: 1 }) => {
      if (found.endpoints.length >= 10) return { result: false };
      return { result: true, next: { ...found, endpoints: [...found.endpoints, { ...endpoint, id }] } };
    });
  const added = await Promise.all(Array.from({ length: 40 }, (_, index) => add(`wh_${index}`)));
  t.is(added.filter((isAdded) => isAdded).length, 10);
  t.is((await webhooks.findWebhooks('user:ann'))?.endpoints.length, 10);
}

async function changesInTurn(t: ExecutionContext, { webhooks }: Store): Promise<void> {
  const count = () =>
    webhooks.changeSchedule('wh_counted', (found = scheduleOf('wh_counted')) => {
      return { result: undefined, next: { ...found, failures: found.failures + 1 } };
    });
  await Promise.all(Array.from({ length: 60 }, count));
  t.is((await webhooks.findSchedule('wh_counted'))?.failures, 60);
}
