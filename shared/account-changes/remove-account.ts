import { nextBatch } from '../batches/batch-states.ts';
import type { Decision } from '../store/documents.ts';
import { type Account, type Change, isRemoved } from '../store/records/account.ts';
import { readAccountBytes, removeUnusedFile, tidyRoom } from '../store/records/batch-store.ts';
import type { Store } from '../store/records/store.ts';
import { makeDue } from '../webhooks/send-events.ts';
import type { ChangeAccount } from './change-account.ts';
import { changed } from './change-settings.ts';

/**
 * Removes an account (contract.md#si4-removal-of-an-account) in the step that ends its keys: its settings, its display name and what is
 * kept of its keys. A suspension stays, as do the ids of top-ups, which would count again, and the counts of keys created today.
 * `clearAccount` removes the rest, as far as it was made until `at`. If the account was not used since its last removal, only that time
 * changes, without a record. `plan` is that of a new account. `isEmpty`: it was seen to have nothing else, so that if its last removal is
 * done nothing changes. What was stored since then calls `useAgain`.
 */
export function beginRemoval({ plan, isEmpty, ...by }: RemovalStart) {
  return (known: Account | undefined): Decision<Account, Account | undefined> => {
    if (known === undefined || (isEmpty && known.removal?.isDone)) return { result: known };
    const { removal: _, ...account } = known;
    const { id, suspended, version, topUpsMade, keysCreated, consoleKeysCreated } = account;
    const keysMade = { ...(keysCreated && { keysCreated }), ...(consoleKeysCreated && { consoleKeysCreated }) };
    const kept = { id, suspended, version, createdAt: by.at, topUpsMade, ...keysMade };
    const none = { keys: [], changes: [] };
    const bare = isRemoved(known)
      ? changed(account, { at: by.at, by: by.by })
      : changed({ ...kept, ...none, plan, overageEnabled: false }, { ...by, accountRemoved: true });
    const next = { ...bare, removal: { at: by.at, isDone: false } };
    return { result: next, next };
  };
}

type RemovalStart = Pick<Change, 'at' | 'by' | 'origin'> & { plan: string; isEmpty?: boolean };

/**
 * Something that was begun for an account at this time is stored now: if the account is removed, it is in use again. What is older than a
 * removal that is not done goes, and only the version changes: a pass that may not have seen it does not end the removal.
 */
export function useAgain(at: Date) {
  return (known: Account | undefined): Decision<Account, undefined> => {
    const removal = known?.removal;
    if (known === undefined || removal === undefined) return { result: undefined };
    const next = changed(known, { at, by: known.id });
    if (!removal.isDone && at <= removal.at) return { result: undefined, next: { ...next, removal } };
    return { result: undefined, ...(isRemoved(known) && { next }) };
  };
}

/** A pass that began with this version has found nothing that is left. Returns false if the account has changed since. */
function endRemoval({ at, version, isInUse }: { at: Date; version: number; isInUse: boolean }) {
  return (known: Account | undefined): Decision<Account, boolean> => {
    const removal = known?.removal;
    if (known === undefined || removal === undefined || removal.isDone) return { result: true };
    if (known.version !== version) return { result: false };
    const { removal: _, ...account } = known;
    const ended = changed(account, { at, by: known.changes[0]?.by ?? known.id });
    const next = isInUse || removal.isUsed ? ended : { ...ended, removal: { ...removal, isDone: true } };
    return { result: true, next };
  };
}

/** A pass over an account with 10,000 files must not hold up whom it keeps waiting. */
const passMs = 10_000;
const itemsAtOnce = 100;
const deliveriesAtOnce = 500;

type Deps = {
  store: Pick<Store, 'accounts' | 'batches' | 'files' | 'webhooks'>;
  changeAccount: ChangeAccount;
  now?: () => number;
};

/**
 * Makes one pass over what an account has left after its removal has begun: webhooks, batches, which are cancelled first, and files. What
 * was made after that stays, and the account is in use again. Returns whether nothing older is left. Can be interrupted and repeated at any
 * time. Fails as the store does. `at`: now.
 */
export type ClearAccount = (account: string, at: Date) => Promise<boolean>;

export function createClearAccount({ store, changeAccount, now = () => performance.now() }: Deps): ClearAccount {
  const { batches } = store;
  return async function clearAccount(account, at) {
    const { removal, version = 0 } = (await store.accounts.findAccount(account)) ?? {};
    if (removal === undefined || removal.isDone) return true;
    const endsAt = now() + passMs;
    const pass = { account, at, upTo: removal.at, isLate: () => now() > endsAt };
    const webhooks = await removeWebhooks(store, pass);
    if (!webhooks.isClear) return false;
    // A batch that is being cancelled reads its input file, and writes files when it ends.
    const ofBatches = await eachOf(batches.listBatches, { ...pass, remove: (id) => removeBatch(store, id, at) });
    if (!ofBatches.isClear) return false;
    const ofFiles = await eachOf(batches.listFiles, { ...pass, remove: (id) => removeFile(store, id) });
    if (!ofFiles.isClear || (await hasMoreToCome(batches, pass, ofFiles.newer))) return false;
    const isInUse = webhooks.newer + ofBatches.newer + ofFiles.newer > 0;
    return changeAccount(account, endRemoval({ at, version, isInUse }));
  };
}

/** `upTo`: only what was made until then is removed. */
type Pass = { account: string; at: Date; upTo: Date; isLate: () => boolean };

/** `newer`: how many items stay, because they were made later. */
type ClearOutcome = { isClear: boolean; newer: number };

/** Whether an upload or a batch that began before the removal may still be on its way. */
async function hasMoreToCome(batches: Store['batches'], { account, at, upTo }: Pass, newer: number): Promise<boolean> {
  await tidyRoom(batches, { account, now: at.getTime() });
  const { files, room } = await readAccountBytes(batches, account);
  return files > newer || Object.values(room.entries).some(({ since }) => since <= upTo);
}

type List = (
  account: string,
  page: { limit: number; after?: string | undefined; order: 'asc' },
) => Promise<{ id: string; createdAt: Date }[]>;

async function eachOf(
  list: List,
  { account, upTo, isLate, remove }: Pass & { remove: (id: string) => Promise<boolean> },
): Promise<ClearOutcome> {
  const cleared = { isClear: true, newer: 0 };
  for (let after: string | undefined; ; ) {
    const found = await list(account, { limit: itemsAtOnce, after, order: 'asc' });
    for (const { id, createdAt } of found) {
      if (createdAt > upTo) cleared.newer += 1;
      else if (isLate()) return { ...cleared, isClear: false };
      else if (!(await remove(id))) cleared.isClear = false;
    }
    after = found.at(-1)?.id;
    if (found.length < itemsAtOnce) return cleared;
  }
}

/** Cancels a batch that still runs. A worker ends its lines, and then closes it. Its files are newer than it, and go with it. */
async function removeBatch(store: Deps['store'], id: string, at: Date): Promise<boolean> {
  const { batches } = store;
  const found = await batches.changeBatch(id, (batch) => {
    const next = batch && nextBatch(batch, { type: 'cancel' }, at);
    return { result: batch, ...(next && { next }) };
  });
  if (found?.open) return false;
  for (const file of [found?.outputFile, found?.errorFile])
    if (file !== undefined && !(await removeFile(store, file))) return false;
  await batches.removeBatch(id);
  return true;
}

async function removeFile(store: Deps['store'], id: string): Promise<boolean> {
  return (await removeUnusedFile(store, id)) !== 'in use';
}

/** The endpoints go last: they name the deliveries, and must still be there if this is interrupted. */
async function removeWebhooks({ webhooks }: Deps['store'], { account, at, upTo, isLate }: Pass): Promise<ClearOutcome> {
  const { endpoints = [] } = (await webhooks.findWebhooks(account)) ?? {};
  const older = endpoints.filter(({ createdAt }) => createdAt <= upTo);
  const newer = endpoints.length - older.length;
  if (older.length === 0) return { isClear: true, newer };
  for (const { id } of older) {
    while ((await webhooks.removeDeliveries(id, deliveriesAtOnce)) > 0) if (isLate()) return { isClear: false, newer };
  }
  await webhooks.changeWebhooks(account, (found) => ({
    result: undefined,
    ...(found && { next: { ...found, endpoints: found.endpoints.filter(({ createdAt }) => createdAt > upTo) } }),
  }));
  // A worker removes what was added in the meantime, and then the schedule.
  for (const { id } of older) await makeDue(webhooks, { endpoint: id, account, now: at, isUrgent: true });
  return { isClear: true, newer };
}
