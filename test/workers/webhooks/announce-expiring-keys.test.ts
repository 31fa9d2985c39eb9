import test from 'ava';
import { createKey, revokeKey, rotateKey } from '../../../ingress/callers/change-keys.ts';
import type { AccountStore } from '../../../shared/store/accounts/account-store.ts';
import { createAnnounceExpiringKeys, removeOldDeliveries } from '../../../workers/webhooks/start-announcing.ts';
import { newKey } from '../../shared/store/store-contract.ts';
import { deliveryOf, webhooksOf } from '../../shared/store/webhook-records.ts';
import { account, openDeliverySide, start } from './delivery-side.ts';

const [day, port] = [86_400_000, 9];
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
  const announce = createAnnounceExpiringKeys(side.store);
  const told = async (at: number) => {
    await announce(new Date(at), signal);
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
  const announce = createAnnounceExpiringKeys({
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
  });
  await announce(new Date(start), ending.signal);
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
