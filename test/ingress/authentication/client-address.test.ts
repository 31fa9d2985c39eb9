import { IncomingMessage } from 'node:http';
import { isIP, Socket } from 'node:net';
import test from 'ava';
import fc from 'fast-check';
import { clientAddress, networkOf } from '../../../ingress/listener/request-headers.ts';

/** A request as Node's HTTP server presents it, from this address with these `X-Forwarded-For` lines. */
function requestFrom(remoteAddress: string | undefined, ...lines: string[]): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress });
  const request = new IncomingMessage(socket);
  request.rawHeaders = lines.flatMap((line) => ['X-Forwarded-For', line]);
  return request;
}

const proxy = '10.0.0.1';
const client = '203.0.113.7';
const spoofed = '198.51.100.66';

type Case = [title: string, hops: number, lines: string[], seen: string];

const cases: Case[] = [
  ['no proxy is trusted and there is no header', 0, [], proxy],
  ['no proxy is trusted', 0, [client], proxy],
  ['no proxy is trusted, with many claims', 0, [`${spoofed}, ${client}`, '::1', 'unknown'], proxy],

  ['one proxy, without the header', 1, [], proxy],
  ['one proxy', 1, [client], client],
  ['one proxy, and a client that claims to be another', 1, [`${spoofed}, ${client}`], client],
  ['one proxy, and a client that claims many', 1, [`${spoofed}, ${'1.1.1.1, '.repeat(50)}${client}`], client],
  ['one proxy, which sends a separate line', 1, [spoofed, client], client],
  ['one proxy, and spoofed lines on which it appended', 1, [spoofed, `1.1.1.1,${client}`], client],
  ['one proxy, and garbage before its entry', 1, [`<script>, ${client}`], client],
  ['one proxy that sent unknown', 1, [`${spoofed}, unknown`], proxy],
  ['one proxy that sent an unreadable entry', 1, [`${spoofed}, _hidden`], proxy],
  ['one proxy that sent an empty line', 1, [spoofed, ''], proxy],
  ['one proxy that ended with a comma', 1, [`${spoofed},`], proxy],

  ['two proxies', 2, [`${client}, 10.0.0.2`], client],
  ['two proxies, and a client that claims to be another', 2, [`${spoofed}, ${client}, 10.0.0.2`], client],
  ['two proxies, each with a separate line', 2, [spoofed, client, '10.0.0.2'], client],
  ['two proxies, one of which was bypassed', 2, [client], client],
  ['two proxies, the outer of which sent unknown', 2, [`${spoofed}, unknown, 10.0.0.2`], '10.0.0.2'],
  ['two proxies, the inner of which sent unknown', 2, [`${spoofed}, ${client}, unknown`], proxy],
  ['two proxies that both sent unknown', 2, [`${spoofed}, unknown, unknown`], proxy],

  ['three proxies', 3, [`${client}, 10.0.0.3, 10.0.0.2`], client],
  ['three proxies, and a client that claims two', 3, [`${spoofed}, 1.1.1.1, ${client}, 10.0.0.3, 10.0.0.2`], client],
  ['three proxies on two lines', 3, [`${spoofed}, ${client}`, '10.0.0.3, 10.0.0.2'], client],
  ['three proxies, two of which were bypassed', 3, [client], client],
  ['three proxies and no header', 3, [''], proxy],

  ['an address with a port', 1, [`${client}:52100`], client],
  ['an address in odd white space', 1, [` \t${client}\t `], client],
  ['an IPv6 address', 1, ['2001:db8::7'], '2001:db8::7'],
  ['an IPv6 address in brackets', 1, ['[2001:db8::7]'], '2001:db8::7'],
  ['an IPv6 address in brackets with a port', 1, ['[2001:db8::7]:443'], '2001:db8::7'],
  ['an IPv6 address with a zone', 1, ['fe80::7%eth0'], 'fe80::7'],
  ['an IPv6 address with a zone in brackets with a port', 1, ['[fe80::7%25eth0]:443'], 'fe80::7'],
  ['an IPv4 address in IPv6', 1, [`::ffff:${client}`], `::ffff:${client}`],
  ['brackets around nothing', 1, ['[]'], proxy],
  ['brackets that do not close', 1, ['[2001:db8::7'], proxy],
  ['an invalid port', 1, [`${client}:http`], proxy],
  ['a number above 255', 1, ['256.1.1.1'], proxy],
  ['a leading zero, which some read as octal', 1, ['010.0.0.9'], proxy],
  ['an address as one number', 1, ['3405803783'], proxy],
  ['a host name', 1, ['client.example'], proxy],
  ['a quoted address', 1, [`"${client}"`], proxy],
];

for (const [title, hops, lines, seen] of cases) {
  test(`the client's address with ${hops} trusted: ${title}`, (t) => {
    t.is(clientAddress(requestFrom(proxy, ...lines), hops), seen);
  });
}

test('closed connections have no address, and count as one client', (t) => {
  t.is(clientAddress(requestFrom(undefined), 0), 'unknown');
  t.is(clientAddress(requestFrom(undefined, client), 1), client);
  t.is(networkOf('unknown'), 'unknown');
});

const socketAddress = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.ipV4().map((address) => `::ffff:${address}`),
);
const entry = fc.oneof(
  fc.string(),
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef:.[]% ,') }),
  fc.ipV4Extended(),
  fc.ipV6(),
  fc.tuple(fc.ipV6(), fc.nat(65_535)).map(([address, port]) => `[${address}]:${port}`),
  fc.constantFrom('unknown', '', '[::1]:', '::ffff:1.2.3.4', '64:ff9b::1.2.3.4', '::1.2.3.4', '::%', '1::1%0'),
);
const lines = fc.array(
  fc.array(entry, { maxLength: 6 }).map((entries) => entries.join(',')),
  { maxLength: 4 },
);

test('without a trusted proxy no header changes the address', (t) => {
  fc.assert(
    fc.property(socketAddress, lines, (address, claimed) => {
      t.is(clientAddress(requestFrom(address, ...claimed), 0), clientAddress(requestFrom(address), 0));
    }),
    { numRuns: 1_000 },
  );
});

test('any header gives an address and its network, and nothing throws', (t) => {
  fc.assert(
    fc.property(socketAddress, lines, fc.nat(8), (address, claimed, hops) => {
      const seen = clientAddress(requestFrom(address, ...claimed), hops);
      t.not(isIP(seen), 0);
      t.regex(networkOf(seen), /^([\d.]+|[\da-f:]+::\/64)$/);
    }),
    { numRuns: 3_000 },
  );
});

test('entries of a client before those of trusted proxies change nothing', (t) => {
  fc.assert(
    fc.property(lines, fc.array(fc.ipV4(), { minLength: 1, maxLength: 4 }), (claimed, seen) => {
      const honest = clientAddress(requestFrom(proxy, seen.join(', ')), seen.length);
      t.is(honest, seen[0] ?? '');
      t.is(clientAddress(requestFrom(proxy, ...claimed, seen.join(', ')), seen.length), honest);
      t.is(clientAddress(requestFrom(proxy, [...claimed, ...seen].join(', ')), seen.length), honest);
    }),
    { numRuns: 1_000 },
  );
});

const networks: [title: string, one: string, another: string, same: boolean][] = [
  ['two IPv4 addresses', '203.0.113.7', '203.0.113.8', false],
  ['an IPv4 address and the same in IPv6', '203.0.113.7', '::ffff:203.0.113.7', true],
  ['an IPv4 address and the same in IPv6, in hexadecimal', '203.0.113.7', '::ffff:cb00:7107', true],
  ['an IPv4 address and the same in IPv6, written out', '203.0.113.7', '0:0:0:0:0:FFFF:CB00:7107', true],
  ['two IPv4 addresses in IPv6', '::ffff:203.0.113.7', '::ffff:203.0.113.8', false],
  ['two addresses of a /64', '2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff', true],
  ['the first and the last address of neighbouring /64s', '2001:db8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:3::', false],
  ['two /64s of one /48', '2001:db8:1:2::1', '2001:db8:1:3::1', false],
  ['compressed and written out', '2001:db8::1', '2001:0db8:0000:0000:0000:0000:0000:0001', true],
  ['compressed at another place', '2001:db8:0:0:1::', '2001:db8::1:0:0:0', true],
  ['lower and upper case', '2001:db8:abcd::1', '2001:DB8:ABCD::1', true],
  ['with a zone and without', 'fe80::1%eth0', 'fe80::1', true],
  ['with the zone of a bridge and without', 'fe80::1%br-lan', 'fe80::1', true],
  ['with the zone of a VLAN and without', 'fe80::1%eth0.100', 'fe80::1', true],
];

for (const [title, one, another, same] of networks) {
  test(`${title} ${same ? 'are' : 'are not'} one client`, (t) => {
    t.is(networkOf(one) === networkOf(another), same, `${networkOf(one)} and ${networkOf(another)}`);
  });
}

test('the network of an IPv4 address is the address, that of an IPv6 address its /64', (t) => {
  t.is(networkOf('203.0.113.7'), '203.0.113.7');
  t.is(networkOf('2001:db8::1'), '2001:db8:0:0::/64');
  t.is(networkOf('unknown'), 'unknown');
});

test('wider networks differ from narrower ones, and from each other', (t) => {
  const address = '2001:db8:7:abcd:1:2:3:4';
  t.is(networkOf(address, 56), '2001:db8:7:ab00::/56');
  t.is(networkOf(address, 48), '2001:db8:7::/48');
  t.is(networkOf('2001:db8:7:abff::', 56), networkOf(address, 56));
  t.not(networkOf('2001:db8:7:ac00::', 56), networkOf(address, 56));
  t.is(networkOf('2001:db8:7:ffff::', 48), networkOf(address, 48));
  t.not(networkOf('2001:db8:8::', 48), networkOf(address, 48));
  for (const bits of [64, 56, 48] as const) {
    t.is(networkOf('203.0.113.7', bits), '203.0.113.7');
    t.is(networkOf('::ffff:203.0.113.7', bits), '203.0.113.7');
  }
});
