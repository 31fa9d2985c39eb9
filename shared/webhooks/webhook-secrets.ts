import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const cipher = 'aes-256-gcm';
const [keyBytes, nonceBytes, tagBytes, secretBytes] = [32, 12, 16, 32];

/** Returns a new secret in the form that libraries for Standard Webhooks take. */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(secretBytes).toString('base64')}`;
}

/** Secrets of endpoints, encrypted with `WEBHOOK_SECRET_KEY` (contract.md#j3-deliveries). */
export function createWebhookSecrets(secretKeys: readonly string[]) {
  const keys = secretKeys.map((key) => Buffer.from(hkdfSync('sha256', key, '', 'webhook secret', keyBytes)));

  return {
    /** Encrypts with the first key. Only the same endpoint's id opens it. */
    seal(endpoint: string, secret: string): string {
      const nonce = randomBytes(nonceBytes);
      const sealing = createCipheriv(cipher, keys[0] ?? '', nonce, { authTagLength: tagBytes });
      sealing.setAAD(Buffer.from(endpoint));
      const text = Buffer.concat([sealing.update(secret, 'utf8'), sealing.final()]);
      return Buffer.concat([nonce, sealing.getAuthTag(), text]).toString('base64url');
    },

    /** Opens with any of the keys. Throws if none fits. */
    open(endpoint: string, sealed: string): string {
      for (const key of keys) {
        const secret = tryToOpen(key, endpoint, Buffer.from(sealed, 'base64url'));
        if (secret !== undefined) return secret;
      }
      throw new Error('no key in WEBHOOK_SECRET_KEY opens the secret of this endpoint');
    },
  };
}

export type WebhookSecrets = ReturnType<typeof createWebhookSecrets>;

function tryToOpen(key: Buffer, endpoint: string, bytes: Buffer): string | undefined {
  const nonce = bytes.subarray(0, nonceBytes);
  const tag = bytes.subarray(nonceBytes, nonceBytes + tagBytes);
  try {
    const opening = createDecipheriv(cipher, key, nonce, { authTagLength: tagBytes });
    opening.setAAD(Buffer.from(endpoint));
    opening.setAuthTag(tag);
    return opening.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8') + opening.final('utf8');
  } catch {
    return undefined;
  }
}
