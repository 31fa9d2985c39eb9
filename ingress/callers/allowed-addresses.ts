import ipaddr from 'ipaddr.js';

type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Callers stay in memory, and so do the lists of their keys. */
const networks = new WeakMap<readonly string[], Network[]>();

/** Whether the text is an address, or a range of them in CIDR notation (RFC 4632, RFC 4291): `192.0.2.7`, `2001:db8::/32`. */
export function isAddressRange(text: string): boolean {
  return parseRange(text) !== undefined;
}

/** Whether a client with this address may use a key with these addresses and ranges; anyone may if there are none. */
export function isAllowedAddress(address: string, allowed: readonly string[] | undefined): boolean {
  if (allowed === undefined) return true;
  if (!ipaddr.isValid(address)) return false;
  const client = ipaddr.process(address); // an IPv4 address within IPv6 counts as IPv4
  return networksOf(allowed).some(([network, bits]) => client.kind() === network.kind() && client.match(network, bits));
}

function networksOf(allowed: readonly string[]): Network[] {
  const known = networks.get(allowed);
  if (known !== undefined) return known;
  const parsed = allowed.flatMap((text) => {
    const range = parseRange(text);
    return range === undefined ? [] : [range];
  });
  networks.set(allowed, parsed);
  return parsed;
}

function parseRange(text: string): Network | undefined {
  if (text.includes('%')) return undefined; // a zone has a meaning on one machine only
  const range = text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`;
  if (!ipaddr.IPv4.isValidCIDR(range) && !ipaddr.IPv6.isValidCIDR(range)) return undefined;
  const [address = '', bits = ''] = range.split('/');
  const isDotted = !address.includes(':');
  if (isDotted && !ipaddr.IPv4.isValidFourPartDecimal(address)) return undefined; // 10.1 would be 10.0.0.1
  const parsed = ipaddr.parse(address);
  if (!(parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress())) return [parsed, Number(bits)];
  return Number(bits) < 96 ? undefined : [parsed.toIPv4Address(), Number(bits) - 96];
}
