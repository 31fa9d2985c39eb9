import { createLocalJWKSet } from 'jose';
import { z } from 'zod';
import { type Clock, systemClock } from '../../shared/process/answer-budget.ts';
import type { Log } from '../../shared/process/log.ts';
import { reasonOf, serversIn } from '../../shared/process/start-error.ts';
import { createPacedFetches, type FetchResult } from './paced-fetches.ts';

const waitMsMax = 2_000;
/** An issuer that has not answered for a day may have withdrawn any of its keys since. */
const trustedMs = 86_400_000;
const pace = {
  /** Bounds the load on the issuer by made-up key ids; short enough for a token to wait for the next fetch. */
  cooldownMs: 1_000,
  fetchMsMax: 5_000,
  againAfterMs: { success: { min: 300_000, max: 600_000 }, failure: { min: 30_000, max: 60_000 } },
};

/**
 * The keys of one issuer, fetched in advance and cached. A successful fetch replaces them, so that withdrawn keys disappear. A failed fetch
 * keeps them; after a day without success they are no longer trusted. All waiting requests share one fetch; each costs a promise and a
 * timer of up to two seconds (contract.md#c15-keys-of-the-issuer, decisions.md#the-issuer-s-keys-fetched-ahead).
 */
export function createIssuerKeys(deps: {
  issuer: string;
  log: Log;
  fetchKeys?: (issuer: string, signal: AbortSignal) => Promise<PublishedKeys>;
  clock?: Clock;
  random?: () => number;
}) {
  const { issuer, log, fetchKeys = fetchIssuerKeys, clock = systemClock, random = Math.random } = deps;
  let known: (PublishedKeys & { asOf: number }) | undefined;
  const report = logChanges(log, issuer);

  const ageMs = () => (known === undefined ? undefined : clock.now() - known.asOf);
  const trusted = () => (known !== undefined && clock.now() - known.asOf < trustedMs ? known : undefined);

  function onFetched(fetched: FetchResult<PublishedKeys>): void {
    if (fetched.ok) known = { ...fetched.value, asOf: fetched.asOf };
    const tooOld = known !== undefined && trusted() === undefined;
    report(fetched.ok ? 'reachable' : tooOld ? 'distrusted' : 'unreachable', fetched.ok ? undefined : fetched.failure);
  }

  const fetch = (signal: AbortSignal) => fetchKeys(issuer, signal);
  const fetches = createPacedFetches({ ...pace, fetch, onFetched, clock, random });

  return {
    /** Time since the start of the last successful fetch; `undefined` before the first one. */
    ageMs,
    /** The origins of the issuer's endpoints, by the last successful fetch; empty before the first one. */
    endpointOrigins: (): readonly string[] => known?.endpointOrigins ?? [],
    /**
     * Returns the result of `attempt` with the keys of the issuer; `attempt` returns `undefined` for a token that none of them signed.
     * Tries the known keys first, then waits up to two seconds for newer ones. `undefined` is certain: a fetch that began after this call
     * returned no such key. Throws if the issuer did not answer in time, because then the result is unknown.
     */
    async consult<Found>(attempt: (keys: KeySet) => Promise<Found | undefined>): Promise<Found | undefined> {
      const cameAt = clock.now();
      // At most three rounds: for the known keys, for a fetch that began before this call, and for the one after it.
      for (;;) {
        const held = trusted();
        const found = held === undefined ? undefined : await attempt(held.keys);
        if (found !== undefined) return found;
        if (held !== undefined && held.asOf >= cameAt) return undefined;
        const fetched = await before(cameAt + waitMsMax, fetches.next(), clock);
        if (fetched === undefined) throw new Error(`the identity provider sent no keys within ${waitMsMax} ms`);
        if (!fetched.ok && fetched.asOf >= cameAt) {
          throw new Error('the keys of the identity provider cannot be fetched', { cause: fetched.failure });
        }
      }
    },
    /** Checks that a fetch of the keys succeeds now, or did within the last second; throws its failure otherwise. */
    async check(): Promise<void> {
      const fetched = await fetches.recent();
      if (!fetched.ok) throw fetched.failure;
    },
    [Symbol.dispose]: () => fetches[Symbol.dispose](),
  };
}

export type IssuerKeys = ReturnType<typeof createIssuerKeys>;

/** `undefined` if the deadline passes first. */
async function before<Value>(deadline: number, work: Promise<Value>, clock: Clock): Promise<Value | undefined> {
  const late = Promise.withResolvers<undefined>();
  const cancel = clock.after(deadline - clock.now(), () => late.resolve(undefined));
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    cancel();
  }
}

/** Logs once for each change, so that a long outage does not log every try. */
function logChanges(log: Log, issuer: string) {
  let reported: 'reachable' | 'unreachable' | 'distrusted' = 'reachable';
  return function report(now: typeof reported, failure: unknown): void {
    if (now === reported) return;
    reported = now;
    if (now === 'reachable') log.info({}, 'the keys of the identity provider can be fetched again');
    if (now === 'unreachable')
      log.warn(
        {},
        `AUTH_URL: the keys of the identity provider at ${serversIn(issuer)} cannot be fetched (${reasonOf(failure)}); cached keys stay in use. Start it, or correct the setting`,
      );
    if (now === 'distrusted')
      log.error({ err: failure }, 'the keys of the identity provider are a day old and no longer trusted');
  };
}

/** The keys that an issuer has published: a function that finds the key of a token. */
export type KeySet = ReturnType<typeof createLocalJWKSet>;

/** What an issuer has published: its keys, and the origins of the endpoints that clients call by `fetch`. */
type PublishedKeys = { keys: KeySet; endpointOrigins: readonly string[] };

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
