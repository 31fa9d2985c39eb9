import test from 'ava';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { createAnnounceQuota } from '../../../workers/webhooks/announce-quota.ts';
import { mint } from '../../shared/store/store-contract.ts';
import { entryAt, usageRecord } from '../../shared/store/usage-records.ts';
import { account, openDeliverySide, start } from './delivery-side.ts';

const month = '2026-12';
const port = 9;
const planFile = { plans: { free: { tokensPerMonth: 1_000 } } } as never; // only this part of a plan is read
const nothingTold = { quotaTold: { [month]: 0 } };

type Side = Awaited<ReturnType<typeof openDeliverySide>>;

let entries = 0;

/** Stores usage, and creates its events as the drainer does. */
async function use({ store, now, log }: Side, tokens: number, stores: Partial<Store> = {}): Promise<void> {
  entries += 1;
  const record = usageRecord({ account, chargedTokens: tokens, entry: entryAt(entries) });
  await store.usage.recordUsage([record]);
  const used = { ...store, ...stores };
  await createAnnounceQuota({ store: used, currentPlanFile: () => planFile, now, log })([record]);
}

async function told({ store }: Side, endpoint: string): Promise<number[]> {
  const deliveries = await store.webhooks.listDeliveries(endpoint, { limit: 9 });
  return deliveries.map(({ payload }) => JSON.parse(payload).data.threshold).sort((one, other) => one - other);
}

test('each threshold has one event, with the usage and the allowance', async (t) => {
  await using side = await openDeliverySide();
  await mint(side.store, account);
  const { endpoint } = await side.addEndpoint(port, nothingTold);
  await use(side, 799);
  t.deepEqual(await told(side, endpoint.id), []);
  await use(side, 1);
  const [first] = await side.store.webhooks.listDeliveries(endpoint.id, { limit: 9 });
  t.like(JSON.parse(first?.payload ?? ''), {
    ...{ type: 'quota.threshold', created_at: start / 1_000 },
    data: { period: month, threshold: 80, used: 800, limit: 1_000 },
  });
  await use(side, 10);
  t.deepEqual(await told(side, endpoint.id), [80]);
  await use(side, 500);
  t.deepEqual(await told(side, endpoint.id), [80, 95, 100]);
  await use(side, 500);
  t.deepEqual(await told(side, endpoint.id), [80, 95, 100]);
  t.deepEqual((await side.store.webhooks.findWebhooks(account))?.endpoints[0]?.quotaTold, { [month]: 100 });
});

test('a top-up raises the allowance, and a plan without a limit has no thresholds', async (t) => {
  await using side = await openDeliverySide();
  const { endpoint } = await side.addEndpoint(port, nothingTold);
  await use(side, 900);
  t.deepEqual(await told(side, endpoint.id), [], 'an account that the store does not have has no limit');
  const { account: found } = await mint(side.store, account);
  await side.store.accounts.changeAccount(account, () => ({
    result: undefined,
    next: { ...found, version: found.version + 1, topUp: { month, tokens: 200 } },
  }));
  await use(side, 59);
  t.deepEqual(await told(side, endpoint.id), [], '959 of 1,200');
  await use(side, 1);
  t.deepEqual(await told(side, endpoint.id), [80]);
});

test('thresholds that had passed when an endpoint subscribed are left out, and others are not', async (t) => {
  await using side = await openDeliverySide();
  await mint(side.store, account);
  const late = await side.addEndpoint(port, { quotaTold: { [month]: 80 } });
  const early = await side.addEndpoint(port, nothingTold);
  const other = await side.addEndpoint(port, { ...nothingTold, events: ['batch.failed'] });
  const disabled = await side.addEndpoint(port, { ...nothingTold, enabled: false });
  await use(side, 960);
  t.deepEqual(await told(side, late.endpoint.id), [95]);
  t.deepEqual(await told(side, early.endpoint.id), [80, 95]);
  for (const { endpoint } of [other, disabled]) t.deepEqual(await told(side, endpoint.id), []);
});

for (const step of ['findWebhooksOf', 'insertDeliveries', 'changeSchedule', 'changeWebhooks'] as const) {
  test(`a drainer that ends after ${step} is repeated, and each threshold has one event`, async (t) => {
    await using side = await openDeliverySide();
    await mint(side.store, account);
    const { endpoint } = await side.addEndpoint(port, nothingTold);
    const { webhooks } = side.store;
    const dying = {
      ...webhooks,
      [step]: async (...args: never[]) => {
        await (webhooks[step] as (...given: never[]) => Promise<unknown>)(...args);
        throw storeUnavailable(new Error('the process has ended'));
      },
    };
    await t.throwsAsync(use(side, 960, { webhooks: dying }));
    // The usage is stored, and its entries are read again: here as the next usage of the account.
    await use(side, 0);
    t.deepEqual(await told(side, endpoint.id), [80, 95]);
    await use(side, 0);
    t.deepEqual(await told(side, endpoint.id), [80, 95]);
  });
}

test('a failure that would come again does not keep usage from being drained', async (t) => {
  await using side = await openDeliverySide();
  await mint(side.store, account);
  await side.addEndpoint(port, nothingTold);
  const broken = () => Promise.reject(new Error('the document cannot be read'));
  await t.notThrowsAsync(use(side, 960, { webhooks: { ...side.store.webhooks, findWebhooksOf: broken } }));
  t.like(side.lines.at(-1), { level: 'error', message: 'events of quotas could not be created' });
});
