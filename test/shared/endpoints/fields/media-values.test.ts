import test from 'ava';
import fc from 'fast-check';
import { isMediaHost, refuseMediaAddress } from '../../../../shared/endpoints/fields/media-values.ts';

const mayHave = (address: string, ...hosts: string[]) => refuseMediaAddress(address, hosts) === undefined;

/** Hosts of the internal network in every spelling that a URL parser accepts for one. */
const internal = [
  ...['127.0.0.1', '127.1', '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1', '017700000001', '127.0.0.1.', '0'],
  ...[
    '10.0.0.7',
    '192.168.1.1',
    '169.254.169.254',
    '169.254.43518',
    '１２７.０.０.１',
    '127。0。0。1',
    '%31%32%37.0.0.1',
  ],
  ...[
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '8.8.8.8',
    '[2001:db8::1]',
  ],
  ...[
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost',
    'redis',
    'vllm',
    'metadata',
    'printer.local',
    'x.internal',
  ],
  ...['metadata.google.internal', 'router.home.arpa', 'nas.lan', 'db.corp', 'vllm.default.svc', 'x.svc.cluster.local'],
  ...['a.intranet', 'b.home', 'c.localdomain', 'media.example.com.', 'ⓛocalhost', 'ｌocalhost', 'x.ＩＮＴＥＲＮＡＬ'],
];

for (const host of internal) {
  test(`${host} is rejected with any port and path, even if every name is allowed`, (t) => {
    for (const address of [
      `https://${host}`,
      `https://${host}/a.png`,
      `https://${host}:443/`,
      `HTTPS://${host}/?x#y`,
    ]) {
      t.false(mayHave(address, '*'), address);
    }
  });
}

const misleading = [
  'https://user@media.example.com/',
  'https://user:password@media.example.com/',
  'https://media.example.com@10.0.0.1/',
  'https://10.0.0.1\\@media.example.com/',
  'https://media.example.com\\.evil.example/',
  'https://media.example.com#@10.0.0.1/',
  'https://media.example.com?@10.0.0.1/',
  'https:media.example.com/a',
  'https:/media.example.com/a',
  'https:///media.example.com/a',
  'https:\\\\media.example.com/a',
  ' https://media.example.com/a',
  'https://media.example.com/a b',
  'https://media.exa\tmple.com/',
  'ht\ntps://media.example.com/',
  'https://media.example.com/\u0000',
  'https://media.example.com/ä.png',
  'https://%6dedia.example.com/',
  'https://media.example.com:/',
  'https://media.example.com:8443/',
  'https://media.example.com:99999/',
  'https://media.example.com%2f@evil.example/',
  'https://media.example.com.evil.example/',
  'https://xmedia.example.com/',
  'https://',
  'https://?x',
];

for (const address of misleading) {
  test(`${JSON.stringify(address)} is not accepted as an address of media.example.com`, (t) => {
    t.false(mayHave(address, 'media.example.com'));
    if (!/evil|xmedia/.test(address)) t.false(mayHave(address, '*'));
  });
}

const otherSchemes = [
  ...['http://media.example.com/a.png', 'ftp://media.example.com/', 'file:///etc/passwd', 'file://media.example.com/a'],
  ...['//media.example.com/a.png', '/etc/passwd', 'a.png', '', 'media.example.com', 'gopher://media.example.com/'],
  ...[
    's3://bucket/key',
    'gs://bucket/key',
    'blob:https://media.example.com/',
    'view-source:https://media.example.com/',
  ],
  ...[
    'jar:https://media.example.com/',
    'javascript:1',
    ' data:image/png;base64,AA',
    'da\tta:image/png;base64,AA',
    'iVBORw0KGgo=',
  ],
];

for (const address of otherSchemes) {
  test(`${JSON.stringify(address)} is rejected for any listed hosts`, (t) => {
    t.false(mayHave(address, '*', 'media.example.com'));
  });
}

test('only data: is accepted if no host is listed', (t) => {
  for (const data of [
    'data:image/png;base64,iVBORw0KGgo=',
    'DATA:,x',
    `data:audio/wav;base64,${'A'.repeat(5_000_000)}`,
  ]) {
    t.true(mayHave(data));
  }
  t.is(
    refuseMediaAddress('https://example.com/a.png', []),
    'the host is not allowed (the operator can allow it in media_hosts)',
  );
});

test('a listed name is accepted only with its own port, a wildcard covers every name below it, and * every public one', (t) => {
  t.true(mayHave('https://media.example.com/a.png?x=1#y', 'media.example.com'));
  t.true(mayHave('https://Media.Example.com:443/a', 'media.example.com'));
  t.true(mayHave('https://media.example.com:8443/a', 'other.example', 'media.example.com:8443'));
  t.false(mayHave('https://media.example.com/a', 'media.example.com:8443'));
  t.true(mayHave('https://a.b.example.com/', '*.example.com'));
  for (const address of ['https://example.com/', 'https://aexample.com/', 'https://a.example.com:8443/']) {
    t.false(mayHave(address, '*.example.com'), address);
  }
  t.true(mayHave('https://cdn.example/a', '*'));
  t.true(mayHave('https://xn--exmple-cua.com/a', '*'));
  t.false(mayHave('https://cdn.example.com:8443/a', '*'), 'an address with a port needs an entry with that port');
});

test('a private name is accepted if the operator lists it by name', (t) => {
  t.true(mayHave('https://media.internal/a.png', 'media.internal'));
  t.true(mayHave('https://minio:9000/a.png', 'minio:9000'));
  t.false(mayHave('https://other.internal/a.png', 'media.internal'));
});

test('an address of more than 8,192 characters is rejected', (t) => {
  const long = (length: number) => `https://example.com/${'a'.repeat(length - 'https://example.com/'.length)}`;
  t.true(mayHave(long(8_192), '*'));
  t.false(mayHave(long(8_193), '*'));
});

test('a host name in URL form, or a wildcard before one, can be listed', (t) => {
  const right = [
    '*',
    'example.com',
    'a-b.example.com',
    '*.example.com',
    'minio',
    'localhost',
    'example.com:8443',
    'xn--exmple-cua.com',
  ];
  for (const host of right) t.true(isMediaHost(host), host);
  const wrong = [
    ...[
      '',
      '*.',
      '**',
      '*example.com',
      'a.*.com',
      'Example.com',
      'example.com.',
      '.example.com',
      'exämple.com',
      'a b.com',
    ],
    ...[
      '127.0.0.1',
      '10.0.0.1:80',
      '2130706433',
      '0x7f.1',
      '[::1]',
      '::1',
      '*.0.0.1',
      'https://example.com',
      'example.com/a',
    ],
    ...[
      'example.com:443',
      'example.com:',
      'example.com:99999',
      '*.example.com:8443',
      '*:8443',
      'user@example.com',
      '-a.com',
    ],
  ];
  for (const host of wrong) t.false(isMediaHost(host), host);
});

test('every accepted address leads to a listed host, as WHATWG URL parses it', (t) => {
  const part = fc.oneof(
    fc.constantFrom('https://', 'https:', '//', '/', '\\', '@', ':', '.', '#', '?', '%', '[', ']', '\t', ' ', '443'),
    fc.constantFrom(
      'media.example.com',
      'evil.example',
      '127.0.0.1',
      'localhost',
      '0x7f',
      'ａ',
      '%2e',
      '\u00ad',
      'user',
    ),
    fc.string({ maxLength: 3 }),
  );
  const address = fc.array(part, { maxLength: 8 }).map((parts) => `https://${parts.join('')}`);
  let taken = 0;
  fc.assert(
    fc.property(address, (text) => {
      if (refuseMediaAddress(text, ['media.example.com']) !== undefined) return true;
      taken++;
      const { protocol, host, username, password } = new URL(text);
      return protocol === 'https:' && host === 'media.example.com' && username === '' && password === '';
    }),
    { numRuns: 5_000, examples: [['https://media.example.com/']] },
  );
  t.true(taken > 0);
});
