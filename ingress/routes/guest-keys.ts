import { ulid } from 'ulid';
import { z } from 'zod';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import type { Decide } from '../../shared/store/documents.ts';
import { type Account, accountStatusOf, lastSeen } from '../../shared/store/records/account.ts';
import { defaultKeyOf, lastUseOf } from '../../shared/store/records/key.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { count } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import type { AuthenticationParts } from '../app-parts.ts';
import { displayPart } from '../authentication/api-key.ts';
import { type GuestKeys, mintGuestKey as mintKey } from '../authentication/change-keys.ts';
import { accountSuspended } from '../authentication/check-caller.ts';
import { mintedKeySchema } from './developer-keys.ts';

/** The largest body of a request for a guest key, which needs no credential. */
const deviceBytesMax = 4_096;

/** No control characters, no white space, no code points that Unicode has not assigned. */
const visible = /^[^\p{C}\p{Z}]{8,256}$/u;

const guestBody = named(
  'Device',
  z.strictObject({
    device_id: z.string().regex(visible, 'expected 8 to 256 visible characters').meta({
      description:
        'A permanent, unique id of this device; stored as a hash. Use at least 64 random bits, because it is a secret.',
    }),
  }),
);

const guestKeySchema = named('GuestKey', mintedKeySchema.extend({ rate_limit_per_day: count }));

export type GuestKey = z.infer<typeof guestKeySchema>;

export const guestKeyRoutes: readonly Route[] = [
  /**
   * Returns the key of a device, the same for each call (contract.md#c12-guest-mints). Needs no credential, so new
   * devices are counted by their client address.
   */
  route({
    id: 'mintGuestKey',
    method: 'POST',
    path: '/v1/keys/guest',
    access: 'none',
    tag: 'Keys',
    summary: 'Mint the key of a device',
    description:
      'Returns the same key at each call with the same `device_id`. The key gives access to models of the tier `guest`, with a daily limit.',
    body: {
      schema: guestBody,
      bytesMax: deviceBytesMax,
      example: { device_id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' },
    },
    answers: {
      description: 'The key, in full.',
      schema: guestKeySchema,
      example: { key: 'svc_…', plan: 'guest-device', rate_limit_per_day: 50 },
    },
    refusals: ['FORBIDDEN'],
    limits: ['guest_calls', 'guest_mints'],
    noStore: true,
    anyOrigin: true,
    async handle({ address, planFile, body: { device_id: deviceId } }, { store, authentication }) {
      const { guestKeys, limitMints, keyUse } = authentication;
      const device = guestKeys.accountOf(deviceId);
      const known = await findInUse(store, device);
      if (known?.suspended) throw accountSuspended();
      const decide = decideMint(guestKeys, device, deviceId);
      const repeat = decide(known);
      if (known === undefined) await limitMints({ address, device }, planFile);
      const account = repeat.next === undefined ? repeat.result : await mint(authentication, device, decide);
      keyUse.note({ account: device, keyId: defaultKeyOf(account)?.id });
      if (account.guest === undefined) throw new Error('a device has a key without the guest data to derive it again');
      const key = guestKeys.remake(deviceId, account.guest);
      const { requestsPerDay = 0 } = planFile.plans[guestPlan] ?? {}; // every plan file has it (shared/plan-file/cross-check.ts)
      return { key, plan: guestPlan, rate_limit_per_day: requestsPerDay };
    },
  }),
];

/** Half of the shortest time after which an unused device can be removed. */
const longMs = 31 * 86_400_000;

/** A device that was not used for long may be about to be removed. So its use is written at once, and the device is read again. */
async function findInUse({ accounts }: Pick<Store, 'accounts'>, device: string): Promise<Account | undefined> {
  const known = await accounts.findAccount(device);
  const key = defaultKeyOf(known);
  if (known === undefined || key === undefined) return known;
  if (Date.now() - lastSeen({ ...known, usedAt: lastUseOf(known.keys) }).getTime() < longMs) return known;
  await accounts.recordKeyUse([{ account: device, keyId: key.id, at: new Date() }]);
  return accounts.findAccount(device);
}

function decideMint(guestKeys: GuestKeys, device: string, deviceId: string): Decide<Account, Account> {
  const [id, createdAt] = [`key_${ulid()}`, new Date()];
  return (known) => {
    const { key, hash, guest } = guestKeys.mint(deviceId, known?.guest);
    const stored = { id, hash, display: displayPart(key), createdAt };
    return mintKey({ account: device, plan: guestPlan, key: stored, guest }, guestKeys.inUse)(known);
  };
}

/**
 * Ingresses may remember that the key was unknown. They read shared callers first, so the new key is shared
 * (ingress/authentication/callers.ts).
 */
async function mint(
  { changeAccount, sharedCallers }: Pick<AuthenticationParts, 'changeAccount' | 'sharedCallers'>,
  device: string,
  decide: Decide<Account, Account>,
): Promise<Account> {
  const account = await changeAccount(device, decide);
  const key = defaultKeyOf(account);
  if (key !== undefined)
    await sharedCallers.put(key.hash, { account: device, keyId: key.id, ...accountStatusOf(account) });
  return account;
}
