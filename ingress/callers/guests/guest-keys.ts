import { createHash } from 'node:crypto';
import type { GuestSecrets } from '../../../shared/store/accounts/account.ts';
import { deriveKey, fingerprint, hashKey } from '../api-key.ts';

/** How devices come by their keys; no I/O. */
export interface GuestKeys {
  /** What the device is stored as: `device:` and the SHA-256 of its id, which is itself kept nowhere. */
  accountOf(deviceId: string): string;
  /**
   * The key that is minted now, with its hash and the fingerprints of the secrets it is made with. A device that has a key,
   * by `made`, keeps it as long as its secret is in use.
   */
  mint(deviceId: string, made?: GuestSecrets): { key: string; hash: string; guest: GuestSecrets };
  /** The key that was made with these secrets, as long as they are in use. */
  remake(deviceId: string, made: GuestSecrets): string;
  /** Whether both secrets are still configured; a key made with one that was withdrawn is honoured no more. */
  inUse(made: GuestSecrets): boolean;
  /** Names all that are configured, in their order. */
  secretsInUse: string;
}

/** Of each kind of secret the first one mints, and the others are honoured. */
export function createGuestKeys(parts: { secrets: readonly string[]; peppers: readonly string[] }): GuestKeys {
  const secrets = new Map(parts.secrets.map((secret) => [fingerprint(secret), secret]));
  const peppers = new Set(parts.peppers.map(fingerprint));
  const [firstSecret = '', pepper = ''] = [parts.secrets[0], parts.peppers[0]];

  return {
    accountOf: (deviceId) => `device:${createHash('sha256').update(deviceId).digest('hex')}`,
    mint(deviceId, made) {
      const secret = secrets.get(made?.secret ?? '') ?? firstSecret;
      const key = deriveKey(deviceId, secret);
      return { key, hash: hashKey(key, pepper), guest: { secret: fingerprint(secret), pepper: fingerprint(pepper) } };
    },
    remake(deviceId, made) {
      const secret = secrets.get(made.secret);
      if (secret === undefined) throw new Error('a guest key was made with a secret that is not in use');
      return deriveKey(deviceId, secret);
    },
    inUse: (made) => secrets.has(made.secret) && peppers.has(made.pepper),
    secretsInUse: fingerprint([...parts.peppers, ...parts.secrets].join('\0')),
  };
}
