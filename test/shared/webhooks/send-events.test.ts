import test from 'ava';
import { noteThresholds, reachedThresholds, untoldThresholds } from '../../../shared/webhooks/quota-thresholds.ts';
import {
  eventOf,
  isSubscribed,
  makeDue,
  payloadOf,
  type SendStore,
  sendEvents,
} from '../../../shared/webhooks/send-events.ts';
import { createSqliteHome } from '../store/sqlite-home.ts';
import { deliveryOf, endpointOf, scheduleOf } from '../store/webhook-records.ts';

const account = 'user:ann';
const now = new Date('2026-12-05T10:00:00Z');
const later = (ms: number) => new Date(now.getTime() + ms);
const event = (name: string) => eventOf({ account, type: 'batch.failed', at: now, what: [name], data: { id: name } });

test('the id of an event depends only on its account, its type and what happened', (t) => {
  const given = { account, type: 'batch.failed', at: now, what: ['batch_1'], data: { id: 'batch_1' } } as const;
  const { id } = eventOf(given);
  t.regex(id, /^evt_[0-9a-f]{32}$/);
  t.is(eventOf({ ...given, at: later(1), data: {} }).id, id);
  const others = [{ account: 'user:bob' }, { type: 'batch.expired' as const }, { what: ['batch_2'] }, { what: [] }];
  for (const other of others) t.not(eventOf({ ...given, ...other }).id, id);
  t.not(eventOf({ ...given, what: ['a', 'b'] }).id, eventOf({ ...given, what: ['a","b'] }).id);
  t.deepEqual(JSON.parse(payloadOf(eventOf(given))), {
    ...{ id, object: 'event', created_at: now.getTime() / 1_000, type: 'batch.failed', data: { id: 'batch_1' } },
  });
});

test('only an enabled endpoint that has an event in its list gets it', (t) => {
  t.true(isSubscribed(endpointOf({ events: ['batch.failed'] }), 'batch.failed'));
  t.false(isSubscribed(endpointOf({ events: ['batch.failed'] }), 'batch.expired'));
  t.false(isSubscribed(endpointOf({ events: ['batch.failed'], enabled: false }), 'batch.failed'));
});

test('beyond ten thousand deliveries that wait, new ones fail at once with their reason', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const countWaiting: SendStore['countWaiting'] = async () => 9_999;
  const full = { ...store.webhooks, countWaiting };
  const [fits, fails] = await sendEvents(full, { endpoint: 'wh_1', events: [event('a'), event('b')], now });
  t.like(fits, { state: 'waiting', nextAt: now });
  t.like(fails, { state: 'failed', reason: 'too many deliveries to this endpoint waited' });
  t.is(await store.webhooks.countWaiting('wh_1', 10), 1);
});

test('an event that was sent before is not sent again, and the endpoint is due again', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const send = () => sendEvents(store.webhooks, { endpoint: 'wh_1', events: [event('a')], now });
  await send();
  const [first] = await store.webhooks.listWaiting('wh_1', 9);
  const { nextAt: _, ...others } = first ?? deliveryOf();
  await store.webhooks.changeDelivery(others.id, () => ({
    result: undefined,
    next: { ...others, state: 'delivered' },
  }));
  await send();
  t.deepEqual(await store.webhooks.listWaiting('wh_1', 9), []);
  t.like(await store.webhooks.findSchedule('wh_1'), { dueAt: now, version: 2 });
});

test('a new event waits for the pause of its endpoint, and an urgent one does not', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const { webhooks } = store;
  const endpoint = 'wh_1';
  const paused = scheduleOf(endpoint, { failures: 2, pausedUntil: later(60_000) });
  await webhooks.changeSchedule(endpoint, () => ({ result: undefined, next: paused }));
  await makeDue(webhooks, { endpoint, account, now, isUrgent: false });
  t.like(await webhooks.findSchedule(endpoint), { dueAt: later(60_000), failures: 2 });
  await makeDue(webhooks, { endpoint, account, now, isUrgent: true });
  const schedule = await webhooks.findSchedule(endpoint);
  t.like(schedule, { dueAt: now, failures: 2 });
  t.is(schedule?.pausedUntil, undefined);
  await webhooks.insertDeliveries([deliveryOf({ endpoint, nextAt: new Date(5) })]);
  await sendEvents(webhooks, { endpoint, events: [event('urgent')], now, isUrgent: true });
  t.is((await webhooks.listWaiting(endpoint, 1))[0]?.event, event('urgent').id, 'it comes before all others');
});

test('a threshold is reached exactly at its share of the allowance', (t) => {
  const reached = (chargedTokens: number, limit?: number) => reachedThresholds({ chargedTokens, limit });
  t.deepEqual(reached(79, 100), []);
  t.deepEqual(reached(80, 100), [80]);
  t.deepEqual(reached(94, 100), [80]);
  t.deepEqual(reached(95, 100), [80, 95]);
  t.deepEqual(reached(99, 100), [80, 95]);
  t.deepEqual(reached(100, 100), [80, 95, 100]);
  t.deepEqual(reached(5, 1), [80, 95, 100]);
  t.deepEqual(reached(1_000), [], 'without a limit there is none');
});

test('each threshold of a month has one event, also after the allowance has grown', (t) => {
  t.deepEqual(untoldThresholds({ '2026-11': 0 }, '2026-11', [80, 95]), [80, 95]);
  t.deepEqual(untoldThresholds({ '2026-11': 80 }, '2026-11', [80, 95]), [95]);
  t.deepEqual(untoldThresholds({ '2026-11': 100 }, '2026-11', [80]), []);
  const told = noteThresholds({ '2026-11': 95 }, '2026-11', [80]);
  t.deepEqual(told, { '2026-11': 95 });
});

test('a new month begins with none told, and months before the subscription are not told', (t) => {
  t.deepEqual(untoldThresholds({ '2026-11': 100 }, '2026-12', [80]), [80]);
  t.deepEqual(untoldThresholds({ '2026-11': 0 }, '2026-10', [80]), []);
  t.deepEqual(untoldThresholds({}, '2026-11', [80]), []);
});

test('the last two months are kept, so that late usage of last month has its event once', (t) => {
  const november = noteThresholds({ '2026-10': 80 }, '2026-11', [80]);
  t.deepEqual(november, { '2026-10': 80, '2026-11': 80 });
  t.deepEqual(untoldThresholds(november, '2026-10', [80, 95]), [95]);
  const december = noteThresholds(november, '2026-12', []);
  t.deepEqual(december, { '2026-11': 80, '2026-12': 0 });
  t.deepEqual(untoldThresholds(december, '2026-10', [80, 95]), []);
});
