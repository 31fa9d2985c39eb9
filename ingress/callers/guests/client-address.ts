import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { headerValues } from '../../api/header-values.ts';

/**
 * The address of the client as the outermost of `trustedHops` proxies saw it. Each proxy appends to `X-Forwarded-For` whom
 * it was called by, so counted from the end the entries of ours are theirs, and what stands before them is anybody's word;
 * with no trusted proxy the header is not looked at. Where the header is shorter, or its entry is no address, the nearest
 * address that one of ours has seen.
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
 * The network of a client: its IPv4 address, or so many bits of its IPv6 address. The /64 counts as one client: it can commonly
 * choose any address of it.
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
