import { generateKeyPair, importJWK, type JWTPayload, SignJWT } from 'jose';
import { loadIdentitySecrets } from '../stack/identity-secrets.ts';

/** A header parameter that is `undefined` is omitted. */
export type SignToken = (claims: JWTPayload, header?: Readonly<Record<string, unknown>>) => Promise<string>;

/** Signs any claims with the key of the identity provider that keeps its data in this directory. */
export async function signerOf(dataDirectory: string): Promise<SignToken> {
  const { signingKey } = await loadIdentitySecrets(dataDirectory);
  const key = await importJWK(signingKey, 'ES256');
  return (claims, header = {}) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: signingKey.kid, ...header }).sign(key);
}

/** The same with a key that no provider has, under any key id. */
export async function strangerWith(kid: string): Promise<SignToken> {
  const { privateKey } = await generateKeyPair('ES256');
  return (claims, header = {}) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid, ...header }).sign(privateKey);
}
