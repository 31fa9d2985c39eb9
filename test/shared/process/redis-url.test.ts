import test from 'ava';
import { parseRedisUrl } from '../../../shared/process/redis-url.ts';

const two = [
  { host: 'a', port: 7000 },
  { host: 'b', port: 6379 },
];

test('the URL of one Redis is kept as it is', (t) => {
  for (const url of ['redis://127.0.0.1:6379', 'rediss://:secret@host/2'])
    t.deepEqual(parseRedisUrl(url), { kind: 'single', url });
});

test('a cluster has servers, a user, and TLS', (t) => {
  const cluster = { kind: 'cluster', servers: two, tls: false } as const;
  t.deepEqual(parseRedisUrl('redis+cluster://a:7000,b'), cluster);
  t.deepEqual(parseRedisUrl('rediss+cluster://a:7000,b/'), { ...cluster, tls: true });
  t.deepEqual(parseRedisUrl('redis+cluster://service:p%40ss%2C%3A1@a:7000,b'), {
    ...cluster,
    username: 'service',
    password: 'p@ss,:1',
  });
  t.deepEqual(parseRedisUrl('redis+cluster://:secret@[2001:db8::1]:7000,10.0.0.1'), {
    ...{ kind: 'cluster', tls: false, password: 'secret' },
    servers: [
      { host: '2001:db8::1', port: 7000 },
      { host: '10.0.0.1', port: 6379 },
    ],
  });
});

test('Sentinel has the name of a master, and may have a database and users of its own', (t) => {
  const servers = [
    { host: 'a', port: 7000 },
    { host: 'b', port: 26_379 },
  ];
  const sentinel = { kind: 'sentinel', servers, master: 'mymaster', database: 0, tls: false } as const;
  t.deepEqual(parseRedisUrl('redis+sentinel://a:7000,b/mymaster'), sentinel);
  t.deepEqual(parseRedisUrl('rediss+sentinel://a:7000,b/mymaster/3'), { ...sentinel, database: 3, tls: true });
  t.deepEqual(
    parseRedisUrl('redis+sentinel://u:p@a:7000,b/my%20master?sentinel_username=s&sentinel_password=%26secret'),
    {
      ...{ ...sentinel, master: 'my master', username: 'u', password: 'p' },
      ...{ sentinelUsername: 's', sentinelPassword: '&secret' },
    },
  );
});

for (const url of [
  'http://host',
  'redis://host:port',
  'redis://host/database',
  'redis://user:12/34@host',
  'redis+cluster://',
  'redis+cluster://a,,b',
  'redis+cluster://a:0',
  'redis+cluster://a:65536',
  'redis+cluster://user@a',
  'redis+cluster://user:@a',
  'redis+cluster://u:%zz@a',
  'redis+cluster://a/1',
  'redis+cluster://a?x=1',
  'redis+cluster://a b',
  'redis+sentinel://a',
  'redis+sentinel://a/',
  'redis+sentinel://a/name/one',
  'redis+sentinel://a/name?other=1',
  'redis+other://a',
]) {
  test(`rejects ${url}`, (t) => {
    t.is(parseRedisUrl(url), undefined);
  });
}
