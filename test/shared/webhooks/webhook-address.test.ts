import test from 'ava';
import { isPublicAddress } from '../../../shared/webhooks/public-address.ts';
import { findPublicAddresses, parseWebhookUrl, WebhookAddressError } from '../../../shared/webhooks/webhook-address.ts';
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
