import { isIP } from 'node:net';

const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
const entry = new RegExp(`^(?:\\*|\\*\\.${label}(?:\\.${label})*|${label}(?:\\.${label})*(?::\\d{1,5})?)$`);

/**
 * Returns whether this is a valid entry of `media_hosts`: `*`, `*.example.com`, or a name, with a port unless it is 443; never an IP
 * address.
 */
export function isMediaHost(text: string): boolean {
  if (!entry.test(text)) return false;
  if (text === '*') return true;
  const name = text.replace(/^\*\./, '');
  const url = URL.parse(`https://${name}`);
  return url?.host === name && isIP(url.hostname) === 0;
}

/** Names that public name servers do not resolve (RFC 6761, 6762, 8375, ICANN's `internal`), and common names of private networks. */
const privateName =
  /(?:^|\.)(?:localhost|local|internal|arpa|lan|home|corp|intranet|private|localdomain|svc|test|invalid|alt|onion)$/;

const addressLengthMax = 8_192;
const visible = /^[\x21-\x7e]*$/;
const beginning = /^https:\/\/([^/?#]*)([?#]?)/i;

/**
 * Returns why a model server may not get this address of an image, a sound or a file, or undefined if it may. Allowed are `data:` URLs, and
 * `https:` URLs with a host that `hosts` lists (contract.md#d1-accepted-requests). The address is checked as it is written and never
 * resolved, so a listed name may still resolve to any address. Addresses that URL parsers read differently are refused: those with a
 * backslash, a user name, white space, no path, or a host that is not in its normal form.
 */
export function refuseMediaAddress(address: string, hosts: readonly string[]): string | undefined {
  if (/^data:/i.test(address)) return undefined;
  const [, named, after] = beginning.exec(address) ?? [];
  const authority = named?.toLowerCase();
  if (authority === undefined) return 'expected a data: or https: URL';
  if (address.length > addressLengthMax || !visible.test(address) || address.includes('\\') || after !== '') {
    return `expected a URL with a path, of at most ${addressLengthMax} visible ASCII characters, without backslashes`;
  }
  if (authority.includes('@')) return 'expected a URL without user name and password';
  const url = URL.parse(address);
  if (url === null || isIP(url.hostname.replace(/^\[|\]$/g, '')) !== 0)
    return 'expected a host name, not an IP address';
  const isListed = authority.replace(/:443$/, '') === url.host && hosts.some((host) => isCovered(url, host));
  return isListed ? undefined : 'the host is not allowed (the operator can allow it in media_hosts)';
}

function isCovered({ host, hostname, port }: URL, listed: string): boolean {
  if (listed === '*')
    return port === '' && hostname.includes('.') && !hostname.endsWith('.') && !privateName.test(hostname);
  return listed.startsWith('*.') ? host.endsWith(listed.slice(1)) : host === listed;
}
