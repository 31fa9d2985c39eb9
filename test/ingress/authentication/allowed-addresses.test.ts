import test from 'ava';
import { isAddressRange, isAllowedAddress } from '../../../ingress/authentication/check-caller.ts';

test('addresses and ranges of both families are read', (t) => {
  for (const text of ['192.0.2.7', '192.0.2.0/24', '0.0.0.0/0', '2001:db8::1', '2001:db8::/32', '::/0', '::1']) {
    t.true(isAddressRange(text), text);
  }
});

test('anything else is no range', (t) => {
  const wrong = ['', '10.1', '10.1/8', '192.0.2.0/33', '2001:db8::/129', '192.0.2.0/-1', '192.0.2.0/ 8', 'localhost'];
  const others = [
    '192.0.2.7:80',
    '[::1]',
    '1',
    '0x7f.1',
    '192.0.2.0/24/24',
    '192.0.2.1-192.0.2.9',
    '/8',
    'fe80::1%eth0/64',
    '::ffff:192.0.2.0/95',
  ];
  for (const text of [...wrong, ...others]) t.false(isAddressRange(text), text);
});

test('a client is allowed by its address or a range around it', (t) => {
  const cases: [string, string[], boolean][] = [
    ['192.0.2.7', ['192.0.2.7'], true],
    ['192.0.2.8', ['192.0.2.7'], false],
    ['192.0.2.255', ['192.0.2.0/24'], true],
    ['192.0.3.0', ['192.0.2.0/24'], false],
    ['192.0.3.0', ['192.0.2.0/24', '192.0.3.0/24'], true],
    ['2001:db8:1::5', ['2001:db8::/32'], true],
    ['2001:db9::5', ['2001:db8::/32'], false],
    ['192.0.2.7', ['::/0'], false],
    ['2001:db8::1', ['0.0.0.0/0'], false],
    ['::ffff:192.0.2.7', ['192.0.2.0/24'], true],
    ['192.0.2.7', ['::ffff:192.0.2.0/120'], true],
    ['192.0.2.7', ['192.0.2.9/24'], true],
    ['192.0.2.7', ['::ffff:0:0/96'], true],
  ];
  for (const [address, allowed, expected] of cases) {
    t.is(isAllowedAddress(address, allowed), expected, `${address} in ${allowed}`);
  }
});

test('without a list anyone is allowed; with one, no client whose address is unknown', (t) => {
  t.true(isAllowedAddress('unknown', undefined));
  t.false(isAllowedAddress('unknown', ['0.0.0.0/0', '::/0']));
});
