import { nextBatch } from '../batches/batch-states.ts';
import type { Account, Change } from '../store/accounts/account.ts';
import type { Decision } from '../store/accounts/decide.ts';
import { readAccountBytes, tidyRoom } from '../store/batches/account-bytes.ts';
import { removeUnusedFile } from '../store/batches/remove-unused-file.ts';
import type { Store } from '../store/store.ts';
import { makeDue } from '../webhooks/send-events.ts';
import type { ChangeAccount } from './change-account.ts';
import { changed } from './change-settings.ts';

/**
 * Removes an account (contract.md#si4-removal-of-an-account) in the step that ends its keys: its settings, its display name and what is kept
 * of its keys. A suspension stays, as do the ids of top-ups, which would count again, and the count of keys created today. `clearAccount`
 * removes the rest. An account whose removal has begun, and that has not been used since, is left as it is. `plan` is that of a new account.
 */
export function beginRemoval({ plan, ...by }: Pick<Change, 'at' | 'by' | 'origin'> & { plan: string }) {
  return (known: Account | undefined): Decision<Account | undefined> => {
    if (known === undefined || known.removal !== undefined) return { result: known };
    const { id, suspended, version, topUpsMade, keysCreated } = known;
    const kept = { id, suspended, version, createdAt: by.at, topUpsMade, ...(keysCreated && { keysCreated }) };
    const none = { endedKeys: [], furtherKeys: [], endedFurtherKeys: [], changes: [] };
    const bare = changed({ ...kept, ...none, plan, overageEnabled: false }, { ...by, accountRemoved: true });
    const next = { ...bare, removal: { at: by.at, isDone: false } };
    return { result: next, next };
  };
}

/** Nothing is left of the account, unless it was used since its removal began. */
function endRemoval(at: Date) {
  return (known: Account | undefined): Decision<undefined> => {
    if (known?.removal?.isDone !== false) return { result: undefined };
    const by = known.changes[0]?.by ?? known.id;
    return { result: undefined, next: { ...changed(known, { at, by }), removal: { ...known.removal, isDone: true } } };
  };
}

/** A pass over an account with 10,000 files must not hold up whom it keeps waiting. */
const passMs = 10_000;
const itemsAtOnce = 100;
const deliveriesAtOnce = 500;

type Deps = {
  store: Pick<Store, 'batches' | 'files' | 'webhooks'>;
  changeAccount: ChangeAccount;
  now?: () => number;
};

/**
 * Makes one pass over what an account has left after its removal has begun: webhooks, batches, which are cancelled first, and files. Returns
 * whether nothing is left. Can be interrupted and repeated at any time. Fails as the store does.
 */
export type ClearAccount = (account: string, at: Date) => Promise<boolean>;

export function createClearAccount({ store, changeAccount, now = () => performance.now() }: Deps): ClearAccount {
  return async function clearAccount(account, at) {
    const endsAt = now() + passMs;
    const isLate = () => now() > endsAt;
    // A batch that is being cancelled reads its input file, and writes files when it ends.
    const isClear =
      (await removeWebhooks(store, { account, at, isLate })) &&
      (await eachOf(store.batches.listBatches, { account, isLate, remove: (id) => removeBatch(store, id, at) })) &&
      (await eachOf(store.batches.listFiles, { account, isLate, remove: (id) => removeFile(store, id) }));
    if (!isClear || (await hasMoreToCome(store.batches, account, at))) return false;
    await changeAccount(account, endRemoval(at));
    return true;
  };
}

/** Whether an upload or a batch that began before the removal is still on its way. */
async function hasMoreToCome(batches: Store['batches'], account: string, at: Date): Promise<boolean> {
  await tidyRoom(batches, { account, now: at.getTime() });
  const { files, room } = await readAccountBytes(batches, account);
  return files > 0 || Object.keys(room.entries).length > 0;
}

type List = (
  account: string,
  page: { limit: number; after?: string | undefined; order: 'asc' },
) => Promise<{ id: string }[]>;
type Removing = { account: string; isLate: () => boolean; remove: (id: string) => Promise<boolean> };

/** Whether all items were removed. */
async function eachOf(list: List, { account, isLate, remove }: Removing): Promise<boolean> {
  let isClear = true;
  for (let after: string | undefined; ; ) {
    const found = await list(account, { limit: itemsAtOnce, after, order: 'asc' });
    for (const { id } of found) {
      if (isLate()) return false;
      if (!(await remove(id))) isClear = false;
    }
    after = found.at(-1)?.id;
    if (found.length < itemsAtOnce) return isClear;
  }
}

/** Cancels a batch that still runs. A worker ends its lines, and then closes it. */
async function removeBatch({ batches }: Deps['store'], id: string, at: Date): Promise<boolean> {
  const isOpen = await batches.changeBatch(id, (batch) => {
    const next = batch && nextBatch(batch, { type: 'cancel' }, at);
    return { result: batch?.open ?? false, ...(next && { next }) };
  });
  if (!isOpen) await batches.removeBatch(id);
  return !isOpen;
}

async function removeFile(store: Deps['store'], id: string): Promise<boolean> {
  return (await removeUnusedFile(store, id)) !== 'in use';
}

/** The endpoints go last: they name the deliveries, and must still be there if this is interrupted. */
async function removeWebhooks(
  { webhooks }: Deps['store'],
  { account, at, isLate }: Pick<Removing, 'account' | 'isLate'> & { at: Date },
): Promise<boolean> {
  const { endpoints = [] } = (await webhooks.findWebhooks(account)) ?? {};
  if (endpoints.length === 0) return true;
  for (const { id } of endpoints) {
    while ((await webhooks.removeDeliveries(id, deliveriesAtOnce)) > 0) if (isLate()) return false;
  }
  await webhooks.changeWebhooks(account, (found) => ({
    result: undefined,
    ...(found && { next: { ...found, endpoints: [] } }),
  }));
  // A worker removes what was added in the meantime, and then the schedule.
  for (const { id } of endpoints) await makeDue(webhooks, { endpoint: id, account, now: at, isUrgent: true });
  return true;
}
