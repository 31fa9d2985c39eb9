import { createLocalJWKSet } from 'jose';
import { z } from 'zod';

/** The keys that an issuer published at one time: finds that of a token, and does nothing else. */
export type KeySet = ReturnType<typeof createLocalJWKSet>;

const documentBytesMax = 512 * 1024;
/** A token without a key id is tried on every key that fits, so there is an end to them. The largest issuers have ten. */
const keysMax = 100;

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url({ protocol: /^https?$/ }) });
/** What a key has to be is looked at when a token names it: one that is strange leaves the others as they are (RFC 7517 5). */
const keySetSchema = z.object({ keys: z.array(z.looseObject({})).min(1).max(keysMax) });

/**
 * The keys of this issuer as it publishes them now, found by its discovery document (OpenID Connect Discovery 1.0,
 * section 4), which is read each time because the address of the keys may change. Throws for whatever is not both.
 */
export async function fetchIssuerKeys(issuer: string, signal: AbortSignal): Promise<KeySet> {
  const discovered = await fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, signal);
  return createLocalJWKSet(keySetSchema.parse(await fetchJson(keySetAddress(issuer, discovered), signal)));
}

/**
 * Where the keys of this issuer are by its discovery document. Throws if the document is for another issuer, or names an address
 * without TLS though it was itself got by TLS: an attacker who can change unencrypted traffic could then sign tokens for any account.
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

/** A redirect is refused: it would let whoever answers at one address choose another that only we can reach. */
async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  const response = await fetch(url, { signal, redirect: 'error', headers: { accept: 'application/json' } });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`${url} answered ${response.status}`);
  }
  return JSON.parse(await readText(response, url));
}

/** Counted as it comes, and unpacked: neither a length that lies nor a document that unpacks to more fills our memory. */
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
