import { isIP } from 'node:net';
import { isPublicAddress } from './public-address.ts';

/** An address that events must not be sent to, or cannot be. The message is for the account, and names no IP address. */
export class WebhookAddressError extends Error {
  override readonly name = 'WebhookAddressError';
}

export type AddressRules = {
  /** Hosts that may be private, and may use `http:`, in lower case: `host` (ports 80 and 443), `host:8443` or `host:*`. */
  hostsPrivate: readonly string[];
  /** Returns all IP addresses of a host name. Fails if there is none. */
  resolve: (host: string, options: { isPrivate: boolean }) => Promise<readonly string[]>;
};

const urlLengthMax = 2_048;
const portMin = 1_024;
/** One message for both, so that accounts do not learn which names exist in the network of the operator. */
const isUnfit = 'the host cannot be found, or has an address that is not public';

/** Parses the address of an endpoint. Fails with `WebhookAddressError`. Does not look up its host. */
export function parseWebhookUrl(text: string, { hostsPrivate }: Pick<AddressRules, 'hostsPrivate'>): URL {
  if (text.length > urlLengthMax) throw new WebhookAddressError(`expected at most ${urlLengthMax} characters`);
  const url = URL.parse(text);
  if (url === null) throw new WebhookAddressError('expected a URL');
  const isPrivate = isListed(url, hostsPrivate);
  if (url.protocol !== 'https:' && !(isPrivate && url.protocol === 'http:')) {
    throw new WebhookAddressError('expected an https URL');
  }
  if (url.username !== '' || url.password !== '') throw new WebhookAddressError('expected no user and no password');
  if (url.port !== '' && Number(url.port) < portMin && !isPrivate) {
    throw new WebhookAddressError(`expected the port 443, or one from ${portMin} on`);
  }
  url.hash = '';
  return url;
}

/**
 * Returns the IP addresses of an endpoint's host, which a connection must use: another look-up may return others. Fails with
 * `WebhookAddressError` if one of them is not public.
 */
export async function findPublicAddresses(
  url: URL,
  { hostsPrivate, resolve }: AddressRules,
): Promise<readonly string[]> {
  const host = hostOf(url);
  const isPrivate = isListed(url, hostsPrivate);
  const addresses = isIP(host) === 0 ? await resolveHost(host, { isPrivate }, resolve) : [host];
  if (!isPrivate && !addresses.every(isPublicAddress)) {
    throw new WebhookAddressError(isUnfit);
  }
  return addresses;
}

async function resolveHost(
  host: string,
  options: { isPrivate: boolean },
  resolve: AddressRules['resolve'],
): Promise<readonly string[]> {
  const addresses = await resolve(host, options).catch(() => []);
  if (addresses.length === 0) throw new WebhookAddressError(isUnfit);
  return addresses;
}

/** A host without a port is listed for the usual ones: other ports of it may be other services, such as a database. */
function isListed(url: URL, listed: readonly string[]): boolean {
  const host = hostOf(url);
  const named = isIP(host) === 6 ? `[${host}]` : host;
  const port = url.port || (url.protocol === 'http:' ? '80' : '443');
  if (url.port === '' && listed.includes(host)) return true;
  return listed.includes(`${named}:${port}`) || listed.includes(`${named}:*`);
}

/** The parser has normalized every form of an IP address, and the case of names. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}
