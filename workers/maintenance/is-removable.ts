import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import { type Account, lastSeen } from '../../shared/store/accounts/account.ts';
import { lastUseOf } from '../../shared/store/accounts/key.ts';
import type { ListedAccount } from '../../shared/store/store.ts';

/** Whether a device may be removable, by its entry in the list of accounts. */
export function isUnused(device: ListedAccount, since: Date): boolean {
  return lastSeen(device) < since && hasUsualSettings(device);
}

/**
 * Whether a device can be removed, by its account: unused since then, and never changed by an operator. Otherwise a suspension would end,
 * a top-up could be made twice, and audit records that are not copied yet would be lost.
 */
export function isRemovable(device: Account, since: Date): boolean {
  const { id, changes, topUpsMade } = device;
  const isChanged = changes.some(({ by, at }) => by !== id || at >= since);
  const usedAt = lastUseOf(device.keys);
  return isUnused({ ...device, ...(usedAt && { usedAt }) }, since) && topUpsMade.length === 0 && !isChanged;
}

function hasUsualSettings({ id, plan, suspended, overageEnabled }: ListedAccount): boolean {
  return id.startsWith('device:') && plan === guestPlan && !suspended && !overageEnabled;
}
