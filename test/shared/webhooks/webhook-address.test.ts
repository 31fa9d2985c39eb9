import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import test from 'ava';
import {
  createResolveHost,
  findPublicAddresses,
  isPublicAddress,
  parseWebhookUrl,
  WebhookAddressError,
} from '../../../shared/webhooks/webhook-address.ts';
import { privateAddresses, privateHosts, publicAddresses } from './addresses.ts';

const noHosts = { hostsPrivate: [] };
const refuseLookUp = () => Promise.reject(new Error('an address is not looked up'));

for (const address of privateAddresses) {
  test(`${address} is not public`, (t) => {
    t.false(isPublicAddress(address));
  });
}

for (const address of publicAddresses) {
  test(`${address} is public`, (t) => {
    t.true(isPublicAddress(address));
  });
}

for (const host of privateHosts) {
  test(`https://${host} is refused without a look-up`, async (t) => {
    const url = parseWebhookUrl(`https://${host}/events`, noHosts);
    const looking = findPublicAddresses(url, { ...noHosts, resolve: refuseLookUp });
    const error = await t.throwsAsync(looking, { instanceOf: WebhookAddressError });
    t.is(error.message, 'the host cannot be found, or has an address that is not public');
  });
}

const refusedUrls: Record<string, string> = {
  'http://example.com/': 'expected an https URL',
  'ftp://example.com/': 'expected an https URL',
  'file:///etc/passwd': 'expected an https URL',
  'javascript:alert(1)': 'expected an https URL',
  'example.com/events': 'expected a URL',
  '': 'expected a URL',
  'https://': 'expected a URL',
  'https://user@example.com/': 'expected no user and no password',
  'https://user:password@example.com/': 'expected no user and no password',
  'https://example.com:80/': 'expected the port 443, or one from 1024 on',
  'https://example.com:25/': 'expected the port 443, or one from 1024 on',
  'https://example.com:1023/': 'expected the port 443, or one from 1024 on',
  'https://example.com:0/': 'expected the port 443, or one from 1024 on',
  'https://1.2.3.4.5.6:99999/': 'expected a URL',
  [`https://example.com/${'x'.repeat(2_048)}`]: 'expected at most 2048 characters',
};

for (const [text, message] of Object.entries(refusedUrls)) {
  test(`"${text.slice(0, 40)}" is refused: ${message}`, (t) => {
    t.throws(() => parseWebhookUrl(text, noHosts), { instanceOf: WebhookAddressError, message });
  });
}

test('usual addresses are accepted, without their fragment', (t) => {
  t.is(parseWebhookUrl('https://Example.com:443/a?b=c#d', noHosts).href, 'https://example.com/a?b=c');
  t.is(parseWebhookUrl('https://example.com:8443', noHosts).href, 'https://example.com:8443/');
  t.is(parseWebhookUrl('https://example.com:1024', noHosts).port, '1024');
  t.is(parseWebhookUrl('https://münchen.example/', noHosts).hostname, 'xn--mnchen-3ya.example');
});

test('a name is refused if any of its addresses is not public, or if it has none, with the same message', async (t) => {
  const url = new URL('https://receiver.example.com/');
  const find = (addresses: string[]) => findPublicAddresses(url, { ...noHosts, resolve: async () => addresses });
  t.deepEqual(await find(['93.184.216.34', '2606:2800:220:1::1']), ['93.184.216.34', '2606:2800:220:1::1']);
  const isUnfit = {
    instanceOf: WebhookAddressError,
    message: 'the host cannot be found, or has an address that is not public',
  };
  await t.throwsAsync(find(['93.184.216.34', '10.0.0.1']), isUnfit);
  await t.throwsAsync(find(['fd00::1', '93.184.216.34']), isUnfit);
  await t.throwsAsync(find(['not an address']), isUnfit);
  await t.throwsAsync(find([]), isUnfit);
  await t.throwsAsync(findPublicAddresses(url, { ...noHosts, resolve: refuseLookUp }), isUnfit);
});

test('a listed host is open at the listed ports only', (t) => {
  const rules = { hostsPrivate: ['redis.internal', '10.0.0.7:8443', '[::1]:9', '::2', 'any.internal:*'] };
  const isOpen = (url: string) => {
    try {
      return parseWebhookUrl(url, rules) !== undefined;
    } catch {
      return false;
    }
  };
  const open = [
    'redis.internal',
    'redis.internal:80',
    '10.0.0.7:8443',
    '[::1]:9',
    '[::2]',
    'any.internal:1',
    'any.internal',
  ];
  const closed = [
    'redis.internal:6379',
    'redis.internal:443',
    '10.0.0.7',
    '10.0.0.7:9',
    '[::1]',
    '[::1]:6379',
    '[::2]:9',
  ];
  t.deepEqual(
    [...open, ...closed].filter((host) => isOpen(`http://${host}/`)),
    open,
  );
  t.true(isOpen('https://10.0.0.7:8443/') && isOpen('https://redis.internal:443/'));
  t.false(isOpen('https://redis.internal:81/'), 'as any host');
});

test('only a listed host may be private and use http', async (t) => {
  const rules = { hostsPrivate: ['receiver.internal:81', '10.0.0.7', '[::1]:*'] };
  const asked: unknown[] = [];
  const resolve = async (host: string, options: unknown) => {
    asked.push([host, options]);
    return ['10.0.0.9'];
  };
  const url = parseWebhookUrl('http://Receiver.internal.:81/', rules);
  t.deepEqual(await findPublicAddresses(url, { ...rules, resolve }), ['10.0.0.9']);
  t.deepEqual(asked, [['receiver.internal', { isPrivate: true }]]);
  t.deepEqual(await findPublicAddresses(parseWebhookUrl('http://10.0.0.7/', rules), { ...rules, resolve }), [
    '10.0.0.7',
  ]);
  t.deepEqual(await findPublicAddresses(parseWebhookUrl('http://[0::1]:9/', rules), { ...rules, resolve }), ['::1']);
  t.throws(() => parseWebhookUrl('http://10.0.0.8/', rules), { message: 'expected an https URL' });
  t.throws(() => parseWebhookUrl('http://a.receiver.internal/', rules), { message: 'expected an https URL' });
  t.throws(() => parseWebhookUrl('ftp://receiver.internal/', rules), { message: 'expected an https URL' });
  const other = parseWebhookUrl('https://other.internal/', rules);
  await t.throwsAsync(findPublicAddresses(other, { ...rules, resolve }), { instanceOf: WebhookAddressError });
});

const [headBytes, typeA] = [12, 1];
const isPrivate = false;

type Answering = (question: { host: string; type: number }) => readonly number[] | undefined;

/** A name server on loopback that answers with one record of these bytes, with no record if there are none, or not at all. */
async function startNameServer(answering: Answering) {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { host, end } = hostIn(query);
    const type = query.readUInt16BE(end);
    asked.push(host);
    const data = answering({ host, type });
    if (data !== undefined) socket.send(answerTo(query, { end, type, data }), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    asked,
    servers: [`127.0.0.1:${socket.address().port}`],
    async [Symbol.asyncDispose]() {
      await new Promise<void>((resolve) => socket.close(resolve));
    },
  };
}

function hostIn(query: Buffer): { host: string; end: number } {
  const labels: string[] = [];
  let at = headBytes;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { host: labels.join('.').toLowerCase(), end: at + 1 };
}

/** RFC 1035, section 4.1. The record refers to the name in the question. */
function answerTo(query: Buffer, { end, type, data }: { end: number; type: number; data: readonly number[] }): Buffer {
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, data.length === 0 ? 0 : 1, 0, 0, 0, 0]);
  const record = [0xc0, headBytes, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length, ...data];
  return Buffer.concat([head, query.subarray(headBytes, end + 4), Buffer.from(data.length === 0 ? [] : record)]);
}

const ipv4 = [93, 184, 216, 34];
const ipv6 = [0x20, 1, 0x48, 0x60, ...Array.from({ length: 11 }, () => 0), 1];

test('returns all IPv4 and IPv6 addresses', async (t) => {
  await using server = await startNameServer(({ type }) => (type === typeA ? ipv4 : ipv6));
  const resolve = createResolveHost(server);
  t.deepEqual(await resolve('receiver.example.com', { isPrivate }), ['93.184.216.34', '2001:4860::1']);
  t.deepEqual(server.asked, ['receiver.example.com', 'receiver.example.com']);
});

test('one kind of address is enough', async (t) => {
  await using server = await startNameServer(({ type }) => (type === typeA ? ipv4 : []));
  t.deepEqual(await createResolveHost(server)('receiver.example.com', { isPrivate }), ['93.184.216.34']);
});

test('a name without addresses has none, and no search domain is added', async (t) => {
  await using server = await startNameServer(() => []);
  t.deepEqual(await createResolveHost(server)('receiver', { isPrivate }), []);
  t.deepEqual([...new Set(server.asked)], ['receiver']);
});

test('a name server is waited for only until the time limit', async (t) => {
  const seen = new Set<number>();
  await using server = await startNameServer(({ type }) => {
    if (seen.has(type)) return type === typeA ? ipv4 : ipv6;
    seen.add(type);
    return undefined; // it would answer the second query, which follows after seconds
  });
  t.deepEqual(await createResolveHost({ ...server, resolveMsMax: 50 })('receiver.example.com', { isPrivate }), []);
});

test('a listed host is looked up as the system does, without a name server', async (t) => {
  await using server = await startNameServer(() => undefined);
  const found = await createResolveHost(server)('localhost', { isPrivate: true });
  t.true(found.some((address) => ['127.0.0.1', '::1'].includes(address)));
  t.deepEqual(server.asked, []);
});
