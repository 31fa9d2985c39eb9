import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The address of the client as the outermost of `trustedHops` proxies saw it. Each proxy appends to `X-Forwarded-For` whom
 * it was called by, so counted from the end the entries of ours are theirs, and what stands before them is anybody's word;
 * with no trusted proxy the header is not looked at. Where the header is shorter, or its entry is no address, the nearest
 * address that one of ours has seen.
 */
export function clientAddress(request: IncomingMessage, trustedHops: number): string {
  const called = bareAddress(request.socket.remoteAddress ?? '') ?? 'unknown';
  if (trustedHops === 0) return called;
  const forwarded = request.headersDistinct['x-forwarded-for'] ?? [];
  const seen = forwarded
    .flatMap((line) => line.split(','))
    .slice(-trustedHops)
    .map(bareAddress);
  const [outermost] = seen.slice(seen.lastIndexOf(undefined) + 1);
  return outermost ?? called;
}

/** What counts as one client: an IPv4 address, or the /64 that an IPv6 client is commonly given to choose from. */
export function networkOf(address: string): string {
  if (isIP(address) === 0) return address;
  const parsed = ipaddr.parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  return `${parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`;
}

/** Without port, brackets and zone, which some proxies add; undefined for anything but an address. */
function bareAddress(text: string): string | undefined {
  const trimmed = text.trim();
  const [, bracketed] = /^\[([^\]]+)\](?::\d+)?$/.exec(trimmed) ?? [];
  const [, withPort] = /^([\d.]+):\d+$/.exec(trimmed) ?? [];
  const address = (bracketed ?? withPort ?? trimmed).replace(/%.*$/, '');
  return isIP(address) === 0 ? undefined : address;
}
