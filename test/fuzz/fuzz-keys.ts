import {
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  type JsonWebKey,
  type KeyObject,
  sign,
} from 'node:crypto';

/** The same keys on every machine, so that a token signed by them can be kept as a seed. They are used for nothing else. */
const issuerKey = p256('the key of the issuer, for fuzzing');
const strangerKey = p256('a key that no issuer has, for fuzzing');
const keyId = 'fuzz-1';

type Pair = { privateKey: KeyObject; publicJwk: JsonWebKey };

/** The issuer's key set. */
export const publishedKeys = { keys: [{ ...issuerKey.publicJwk, kid: keyId, alg: 'ES256', use: 'sig' }] };

/** Who signs a header and claims. `public`: an HMAC with the issuer's public key as the secret. */
export const signers = ['issuer', 'stranger', 'public'] as const;
export type Signer = (typeof signers)[number];

/** A token with this header and these claims, which are signed unchanged, whether they are JSON or not. */
export function signText(by: Signer, header: Buffer, claims: Buffer): string {
  const signed = `${header.toString('base64url')}.${claims.toString('base64url')}`;
  return `${signed}.${signatureOf(by, Buffer.from(signed)).toString('base64url')}`;
}

function signatureOf(by: Signer, bytes: Buffer): Buffer {
  if (by === 'public') return createHmac('sha256', JSON.stringify(publishedKeys.keys[0])).update(bytes).digest();
  const { privateKey } = by === 'issuer' ? issuerKey : strangerKey;
  return sign('sha256', bytes, { key: privateKey, dsaEncoding: 'ieee-p1363' });
}

function p256(text: string): Pair {
  const ecdh = createECDH('prime256v1');
  ecdh.setPrivateKey(createHash('sha256').update(text).digest());
  const point = ecdh.getPublicKey();
  const publicJwk = {
    ...{ kty: 'EC', crv: 'P-256' },
    x: point.subarray(1, 33).toString('base64url'),
    y: point.subarray(33).toString('base64url'),
  };
  const d = ecdh.getPrivateKey().toString('base64url');
  return { privateKey: createPrivateKey({ key: { ...publicJwk, d }, format: 'jwk' }), publicJwk };
}
