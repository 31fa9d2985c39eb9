import { createLocalJWKSet } from 'jose';
import { z } from 'zod';

/** The keys that an issuer has published: a function that finds the key of a token. */
export type KeySet = ReturnType<typeof createLocalJWKSet>;

/** What an issuer has published: its keys, and the origins of the endpoints that clients call by `fetch`. */
export type PublishedKeys = { keys: KeySet; endpointOrigins: readonly string[] };

const documentBytesMax = 512 * 1024;
/** A token without a key id is tried with every matching key, so their number is bounded. The largest issuers have ten. */
const keysMax = 100;

const address = z.url({ protocol: /^https?$/ });
const discoverySchema = z.object({ issuer: z.string(), jwks_uri: address });
/** An invalid endpoint is missing for the console only: tokens are still accepted. */
const endpointsSchema = z.object({
  token_endpoint: address.optional().catch(undefined),
  revocation_endpoint: address.optional().catch(undefined),
});
/** A host of a URL may have characters that end a source of a content security policy, such as `;`. */
const plainOrigin = /^https?:\/\/[\w.:[\]-]+$/;
/** A key is validated when a token names it: an unknown kind of key must not invalidate the others (RFC 7517 5). */
const keySetSchema = z.object({ keys: z.array(z.looseObject({})).min(1).max(keysMax) });

/**
 * Fetches the current keys of the issuer by its discovery document (OpenID Connect Discovery 1.0, section 4). The document is read each
 * time because the address of the keys may change. Throws if either is missing or invalid.
 */
export async function fetchIssuerKeys(issuer: string, signal: AbortSignal): Promise<PublishedKeys> {
  const discovered = await fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, signal);
  const keys = createLocalJWKSet(keySetSchema.parse(await fetchJson(keySetAddress(issuer, discovered), signal)));
  return { keys, endpointOrigins: endpointOriginsIn(issuer, discovered) };
}

/** Returns the origins of the endpoints that the console calls. An issuer with TLS can have none without it. */
export function endpointOriginsIn(issuer: string, discovered: unknown): string[] {
  const endpoints = Object.values(endpointsSchema.parse(discovered)).flatMap((url) => (url === undefined ? [] : [url]));
  const needsTls = new URL(issuer).protocol === 'https:';
  const origins = endpoints.map((url) => new URL(url).origin);
  return [...new Set(origins)].filter((one) => plainOrigin.test(one) && (!needsTls || one.startsWith('https:')));
}

/**
 * Returns the address of the keys from the discovery document. Throws if the document is for another issuer, or names an address without
 * TLS although the issuer uses TLS: an attacker who can change unencrypted traffic could then sign tokens for any account.
 */
export function keySetAddress(issuer: string, discovered: unknown): string {
  const discovery = discoverySchema.parse(discovered);
  if (discovery.issuer !== issuer) throw new Error('discovery names another issuer than AUTH_URL');
  const protocolOf = (url: string) => new URL(url).protocol;
  if (protocolOf(issuer) === 'https:' && protocolOf(discovery.jwks_uri) !== 'https:') {
    throw new Error('discovery by https names keys without it');
  }
  return discovery.jwks_uri;
}

/** Redirects are refused: the server could redirect to an address that only this service can reach. */
async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  const response = await fetch(url, { signal, redirect: 'error', headers: { accept: 'application/json' } });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`${url} answered ${response.status}`);
  }
  return JSON.parse(await readText(response, url));
}

/** Counts decompressed bytes as they arrive: neither a wrong length nor a decompression bomb fills the memory. */
async function readText(response: Response, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > documentBytesMax) throw new Error(`${url} answered with more than ${documentBytesMax} bytes`);
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}
