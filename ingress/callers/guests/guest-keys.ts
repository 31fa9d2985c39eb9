import { createHash } from 'node:crypto';
import type { GuestSecrets } from '../../../shared/store/records/account.ts';
import { deriveKey, fingerprint, hashKey } from '../api-key.ts';

/** Of each kind of secret, the first one mints, and keys of the others are accepted. */
export function createGuestKeys(deps: { secrets: readonly string[]; peppers: readonly string[] }) {
  const secrets = new Map(deps.secrets.map((secret) => [fingerprint(secret), secret]));
  const peppers = new Set(deps.peppers.map(fingerprint));
  const [firstSecret = '', pepper = ''] = [deps.secrets[0], deps.peppers[0]];

  return {
    /** The account of the device: `device:` and the SHA-256 of its id; the id itself is not stored. */
    accountOf: (deviceId: string): string => `device:${createHash('sha256').update(deviceId).digest('hex')}`,
    /**
     * Mints a key, with its hash and the fingerprints of the secrets used. A device that has a key, by `made`, keeps it while its secret is
     * in use.
     */
    mint(deviceId: string, made?: GuestSecrets): { key: string; hash: string; guest: GuestSecrets } {
      const secret = secrets.get(made?.secret ?? '') ?? firstSecret;
      const key = deriveKey(deviceId, secret);
      return { key, hash: hashKey(key, pepper), guest: { secret: fingerprint(secret), pepper: fingerprint(pepper) } };
    },
    /** Returns the key that was made with these secrets; throws if the secret is no longer in use. */
    remake(deviceId: string, made: GuestSecrets): string {
      const secret = secrets.get(made.secret);
      if (secret === undefined) throw new Error('a guest key was made with a secret that is not in use');
      return deriveKey(deviceId, secret);
    },
    /** Whether both secrets are still configured; a key made with a removed secret is no longer accepted. */
    inUse: (made: GuestSecrets): boolean => secrets.has(made.secret) && peppers.has(made.pepper),
    /** Identifies all configured secrets, in order. */
    secretsInUse: fingerprint([...deps.peppers, ...deps.secrets].join('\0')),
  };
}

/** Derives the keys of devices; no I/O (contract.md#c11-guest-keys). */
export type GuestKeys = ReturnType<typeof createGuestKeys>;
