import { ulid } from 'ulid';
import { z } from 'zod';
import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import { accountStatusOf } from '../../../shared/caller.ts';
import { guestPlan } from '../../../shared/plan-file/plan-file-schema.ts';
import { type Account, lastSeen } from '../../../shared/store/accounts/account.ts';
import { defaultKeyOf, lastUseOf } from '../../../shared/store/accounts/key.ts';
import type { Decide } from '../../../shared/store/documents/documents.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseBody } from '../../api/json-body.ts';
import { displayPart } from '../../callers/api-key.ts';
import { mintGuestKey as mintKey } from '../../callers/change-keys.ts';
import { accountSuspended } from '../../callers/check-caller.ts';
import type { GuestKeys } from '../../callers/guests/guest-keys.ts';
import type { LimitMints } from '../../callers/guests/limit-mints.ts';
import type { KeyUse } from '../../callers/key-use.ts';
import type { SharedCallers } from '../../callers/shared-callers.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/** Half of the shortest time after which an unused device can be removed. */
const longMs = 31 * 86_400_000;
/** No control characters, no white space, no code points that Unicode has not assigned. */
const visible = /^[^\p{C}\p{Z}]{8,256}$/u;
export const guestBody = z.strictObject({
  device_id: z.string().regex(visible, 'expected 8 to 256 visible characters').meta({
    description:
      'A permanent, unique id of this device; stored as a hash. Use at least 64 random bits, because it is a secret.',
  }),
});

/**
 * `POST /v1/keys/guest`: returns the key of a device, the same for each call (contract.md#c12-guest-mints). Needs no credential, so new
 * devices are counted by their client address.
 */
export function mintGuestKey(deps: {
  store: Pick<Store, 'accounts'>;
  changeAccount: ChangeAccount;
  guestKeys: GuestKeys;
  limitMints: LimitMints;
  sharedCallers: Pick<SharedCallers, 'put'>;
  keyUse: Pick<KeyUse, 'note'>;
}): Stage {
  const { store, changeAccount, guestKeys, limitMints, sharedCallers, keyUse } = deps;

  return async function mintGuestKey(ctx) {
    const planFile = stateOf(ctx, 'planFile');
    const { device_id: deviceId } = parseBody(guestBody, stateOf(ctx, 'body'));
    const device = guestKeys.accountOf(deviceId);
    const known = await findInUse(device);
    if (known?.suspended) throw accountSuspended();
    const decide = decideMint(device, deviceId);
    const repeat = decide(known);
    if (known === undefined) {
      await limitMints({ address: stateOf(ctx, 'address'), device }, planFile);
    }
    const account = repeat.next === undefined ? repeat.result : await change(device, decide);
    keyUse.note({ account: device, keyId: defaultKeyOf(account)?.id });
    const requestsPerDay = planFile.plans[guestPlan]?.requestsPerDay;
    ctx.body = { key: remake(deviceId, account), plan: guestPlan, rate_limit_per_day: requestsPerDay };
  };

  /** A device that was not used for long may be about to be removed. So its use is written at once, and the device is read again. */
  async function findInUse(device: string): Promise<Account | undefined> {
    const known = await store.accounts.findAccount(device);
    const key = defaultKeyOf(known);
    if (known === undefined || key === undefined) return known;
    if (Date.now() - lastSeen({ ...known, usedAt: lastUseOf(known.keys) }).getTime() < longMs) return known;
    await store.accounts.recordKeyUse([{ account: device, keyId: key.id, at: new Date() }]);
    return store.accounts.findAccount(device);
  }

  function decideMint(device: string, deviceId: string): Decide<Account, Account> {
    const [id, createdAt] = [`key_${ulid()}`, new Date()];
    return (known) => {
      const { key, hash, guest } = guestKeys.mint(deviceId, known?.guest);
      const stored = { id, hash, display: displayPart(key), createdAt };
      return mintKey({ account: device, plan: guestPlan, key: stored, guest }, guestKeys.inUse)(known);
    };
  }

  /** Ingresses may remember that the key was unknown. They read shared callers first, so the new key is shared (callers.ts). */
  async function change(device: string, decide: Decide<Account, Account>): Promise<Account> {
    const account = await changeAccount(device, decide);
    const key = defaultKeyOf(account);
    if (key !== undefined)
      await sharedCallers.put(key.hash, { account: device, keyId: key.id, ...accountStatusOf(account) });
    return account;
  }

  function remake(deviceId: string, { guest }: Account): string {
    if (guest === undefined) throw new Error('a device has a key without the guest data to derive it again');
    return guestKeys.remake(deviceId, guest);
  }
}
