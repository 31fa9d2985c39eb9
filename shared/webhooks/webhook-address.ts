import { lookup, Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

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

/** Public by its number, but answered by the host of a virtual machine in Azure. */
const hostOfAzure = '168.63.129.16';
/** The addresses of the public Internet (RFC 4291, section 2.4); everything else in IPv6 is reserved or local. */
const globalUnicast = ipaddr.parseCIDR('2000::/3');
/** Blocks in it that are not public: protocols and tunnels (Teredo, ORCHID, 6to4), and documentation. */
const notPublic = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'].map((range) => ipaddr.IPv6.parseCIDR(range));
/** A translator sends these to the IPv4 address in their last four bytes (RFC 6052). */
const translated = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/**
 * Returns whether an IP address is public. An IPv6 address that embeds an IPv4 address is as public as that; tunnels are never public
 * (contract.md#j4-webhook-addresses).
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text) || text.includes('%')) return false;
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return isPublicIPv4(address);
  if (address.isIPv4MappedAddress()) return isPublicIPv4(address.toIPv4Address());
  if (address.match(translated)) return isPublicIPv4(new ipaddr.IPv4(address.toByteArray().slice(-4)));
  return address.match(globalUnicast) && !notPublic.some((range) => address.match(range));
}

function isPublicIPv4(address: ipaddr.IPv4): boolean {
  return address.range() === 'unicast' && address.toString() !== hostOfAzure;
}

const attemptMs = 2_000;
const answerMsMax = 5_000;

/**
 * Asks the name servers directly. `lookup` would wait in one of the four threads that all of the process shares, as long as the name server
 * of an endpoint does not answer. It is used only for hosts that an operator has listed, which may be in the hosts file. `servers`: others
 * than those of the system.
 */
export function createResolveHost({
  servers,
  resolveMsMax = answerMsMax,
}: {
  servers?: readonly string[];
  resolveMsMax?: number;
} = {}): AddressRules['resolve'] {
  return async function resolveHost(host, { isPrivate }) {
    if (isPrivate) return (await lookup(host, { all: true })).map(({ address }) => address);
    const resolver = new Resolver({ timeout: attemptMs, tries: 2 });
    if (servers !== undefined) resolver.setServers(servers);
    const late = setTimeout(() => resolver.cancel(), resolveMsMax);
    try {
      const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    } finally {
      clearTimeout(late);
    }
  };
}
