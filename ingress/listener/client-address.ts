import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { headerValues } from './headers.ts';

/**
 * Returns the address of the client as seen by the outermost of `trustedHops` proxies. Each proxy appends the address of its caller to
 * `X-Forwarded-For`. So the last entries are from our proxies, and earlier ones cannot be trusted; without a trusted proxy the header is
 * ignored. If the header is shorter, or the entry is not an address, returns the outermost valid address that one of our proxies has seen.
 */
export function clientAddress(request: IncomingMessage, trustedHops: number): string {
  const called = bareAddress(request.socket.remoteAddress ?? '') ?? 'unknown';
  if (trustedHops === 0) return called;
  const forwarded = headerValues(request, 'x-forwarded-for');
  const seen = forwarded
    .flatMap((line) => line.split(','))
    .slice(-trustedHops)
    .map(bareAddress);
  const [outermost] = seen.slice(seen.lastIndexOf(undefined) + 1);
  return outermost ?? called;
}

/**
 * Returns the network of a client: its IPv4 address, or the first `bits` bits of its IPv6 address. A /64 counts as one client, which can
 * usually choose any address of it (decisions.md#failed-lookups-counted-by-network).
 */
export function networkOf(text: string, bits: 64 | 56 | 48 = 64): string {
  const address = withoutZone(text);
  if (isIP(address) === 0) return address;
  const parsed = ipaddr.parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  const [first, second, third, fourth = 0] = parsed.parts;
  const parts = bits === 48 ? [first, second, third] : [first, second, third, bits === 56 ? fourth & 0xff00 : fourth];
  return `${parts.map((part) => part?.toString(16)).join(':')}::/${bits}`;
}

/** Without port, brackets and zone, which some proxies add; undefined for anything but an address. */
function bareAddress(text: string): string | undefined {
  const trimmed = text.trim();
  const [, bracketed] = /^\[([^\]]+)\](?::\d+)?$/.exec(trimmed) ?? [];
  const [, withPort] = /^([\d.]+):\d+$/.exec(trimmed) ?? [];
  const address = withoutZone(bracketed ?? withPort ?? trimmed);
  return isIP(address) === 0 ? undefined : address;
}

/** A socket's link-local IPv6 address ends with `%` and the name of an interface. */
function withoutZone(address: string): string {
  return address.replace(/%.*$/, '');
}
