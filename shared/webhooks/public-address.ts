import ipaddr from 'ipaddr.js';

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
