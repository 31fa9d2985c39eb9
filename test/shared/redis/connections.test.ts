import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { Cluster, ReplyError } from 'ioredis';
import { ApiError } from '../../../shared/errors.ts';
import {
  connectForRequests,
  connectForWork,
  ifAvailable,
  mastersOf,
  type Redis,
  readStrings,
  redisNow,
  redisUnavailable,
} from '../../../shared/redis/connections.ts';
import { loadScript } from '../../../shared/redis/load-lua.ts';
import { waitForRedis, waitUntilReady } from '../../../shared/redis/wait-for-redis.ts';
import { openRedisDatabase, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { watchRedis } from '../../support/watch-redis.ts';

const never = new AbortController().signal;

test('for a request: a frozen Redis fails within a second, and a started call is not sent twice', async (t) => {
  await using own = await startPrivateRedis();
  const connection = connectForRequests(own.server.url, recordedLog().log);
  t.teardown(() => connection.disconnect());
  await waitUntilReady(connection, never);

  await own.server.kill('SIGSTOP');
  await t.throwsAsync(connection.incr('calls'), { message: 'Command timed out' });
  await own.server.kill('SIGCONT');

  await waitUntilReady(connection, never);
  t.is(await connection.ping(), 'PONG');
  t.true(Number(await own.redis.get('calls')) <= 1);
});

test('for a request: a reply that arrived while the process was blocked counts', async (t) => {
  await using own = await startPrivateRedis();
  const connection = connectForRequests(own.server.url, recordedLog().log);
  t.teardown(() => connection.disconnect());
  await waitUntilReady(connection, never);

  const call = connection.ping();
  await new Promise((resolve) => setImmediate(resolve)); // the call is sent now
  const heldUpUntil = performance.now() + 1_200; // longer than the time-out of a call
  while (performance.now() < heldUpUntil);
  t.is(await call, 'PONG');
});

test('for a request: a dead Redis fails at once, and is used again automatically when it returns', async (t) => {
  await using own = await startPrivateRedis();
  const { log, lines } = recordedLog();
  const connection = connectForRequests(own.server.url, log);
  t.teardown(() => connection.disconnect());
  await waitUntilReady(connection, never);

  const refused = new Promise((resolve) => connection.once('error', resolve));
  await own.server.kill('SIGKILL');
  await t.throwsAsync(connection.ping());
  await refused;
  const tries = Array.from({ length: 50 }, () =>
    connection.ping().then(
      () => false,
      () => true,
    ),
  );
  const later = new Promise((resolve) => setImmediate(resolve, 'later'));
  t.not(await Promise.race([Promise.all(tries), later]), 'later', 'before any other callback ran');
  t.true((await Promise.all(tries)).every((failed) => failed));

  await own.server.restart();
  await waitUntilReady(connection, never);
  t.is(await connection.ping(), 'PONG');
  const warnings = lines.filter(({ level }) => level === 'warn');
  t.is(warnings.length, 1, 'an outage is logged once, however often it was tried');
  t.true(lines.some(({ message }) => message === 'Redis is reachable again'));
});

test('for a request: a connection whose packets are lost is replaced', async (t) => {
  await using own = await startPrivateRedis();
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: own.server.port }, 'pass');
  const connection = connectForRequests(`redis://127.0.0.1:${proxy.port}`, recordedLog().log);
  t.teardown(() => connection.disconnect());
  await waitUntilReady(connection, never);

  t.timeout(60_000);
  proxy.become('black hole');
  const closed = new Promise((resolve) => connection.once('close', resolve));
  await t.throwsAsync(connection.ping());
  await closed; // the other side sends nothing
  proxy.become('pass');
  await waitUntilReady(connection, never);
  t.is(await connection.ping(), 'PONG');
});

test('for work: a call waits until a dead Redis is back', async (t) => {
  await using own = await startPrivateRedis();
  const connection = connectForWork(own.server.url, recordedLog().log);
  t.teardown(() => connection.disconnect());
  await waitUntilReady(connection, never);

  await own.server.kill('SIGKILL');
  let done = false;
  const call = connection.set('kept', 'yes').finally(() => {
    done = true;
  });
  await sleep(1_500); // longer than a call for a request would wait
  t.false(done);
  await own.server.restart();
  t.is(await call, 'OK');
  t.is(await connection.get('kept'), 'yes');
});

test('waiting until ready ends with its signal, and not before Redis is available', async (t) => {
  await using own = await startPrivateRedis();
  await own.server.stop();
  const connection = connectForRequests(own.server.url, recordedLog().log);
  t.teardown(() => connection.disconnect());
  const shutdown = new AbortController();
  const ended = t.throwsAsync(waitUntilReady(connection, shutdown.signal), { name: 'AbortError' });
  const ready = waitUntilReady(connection, never);
  await sleep(200);
  shutdown.abort();
  await ended;
  await own.server.restart();
  await t.notThrowsAsync(ready);
});

/** What a start with this URL ends with, and what it logs until then. */
async function startWith(t: ExecutionContext, url: string, setting?: 'REPLY_REDIS_URL') {
  const { log, lines } = recordedLog();
  const connection = connectForWork(url, log, setting);
  t.teardown(() => connection.disconnect());
  const error = await t.throwsAsync(waitForRedis([connection], { signal: never, log }), { name: 'StartError' });
  return { message: error.message, lines };
}

test('a wrong password, user or database ends the start with the setting and the address, and is not retried', async (t) => {
  await using own = await startPrivateRedis();
  await own.redis.call('ACL', 'SETUSER', 'me', 'on', '>secret', '~*', '+@all', '-select');
  const { host } = new URL(own.server.url);
  for (const [login, path, reason] of [
    ['me:wrong-word@', '', /WRONGPASS/],
    ['stranger:wrong-word@', '', /WRONGPASS/],
    ['', '/99', /DB index is out of range/],
    ['me:secret@', '/1', /NOPERM.*select/],
  ] as const) {
    const { message, lines } = await startWith(t, `redis://${login}${host}${path}`);
    t.regex(message, reason);
    t.true(message.startsWith(`REDIS_URL: Redis at ${host} refuses the connection (`), message);
    t.true(message.endsWith('). Correct REDIS_URL.'), message);
    t.false(/wrong-word|secret|\n/.test(message), message);
    t.deepEqual(lines, []);
  }
  await own.redis.config('SET', 'requirepass', 'secret');
  t.regex((await startWith(t, own.server.url, 'REPLY_REDIS_URL')).message, /^REPLY_REDIS_URL: .*NOAUTH/);
});

test('a Redis that cannot be reached is named once, with its setting and without password and stack', async (t) => {
  await using own = await startPrivateRedis();
  await own.server.stop();
  const { host } = new URL(own.server.url);
  const { log, lines } = recordedLog();
  const connection = connectForRequests(own.server.url.replace('//', '//me:secret@'), log);
  t.teardown(() => connection.disconnect());
  for (let failures = 0; failures < 3; failures += 1) {
    await new Promise((resolve) => connection.once('reconnecting', resolve));
  }
  const message = `REDIS_URL: Redis at ${host} cannot be reached (ECONNREFUSED); retrying. Start it, or correct the setting`;
  t.deepEqual(lines, [{ level: 'warn', fields: {}, message }]);
});

test('a failed call is SERVICE_UNAVAILABLE for the client, and a successful one returns its result', async (t) => {
  const cause = new Error('connect ECONNREFUSED 10.0.0.1:6379');
  const error = await t.throwsAsync(redisUnavailable(Promise.reject(cause)), { instanceOf: ApiError });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
  t.is(error?.cause, cause);
  t.false(error?.message.includes('10.0.0.1'));
  t.is(await redisUnavailable(Promise.resolve(7)), 7);
});

test('a new connection sends nothing that Redis refuses', async (t) => {
  await using own = await startPrivateRedis();
  await own.redis.config('RESETSTAT');
  const { log } = recordedLog();
  for (const connect of [connectForRequests, connectForWork]) {
    const redis = connect(own.server.url, log);
    await waitForRedis([redis], { signal: never, log });
    redis.disconnect();
  }
  t.notRegex(await own.redis.info('errorstats'), /errorstat_/);
});

test('a Redis that is refused ends the waiting for the others', async (t) => {
  await using own = await startPrivateRedis();
  const { log } = recordedLog();
  const wrong = connectForRequests(own.server.url.replace('//', '//none:none@'), log);
  t.teardown(() => wrong.disconnect());
  let looks = 0;
  const away = {
    get status() {
      looks += 1;
      return 'connecting';
    },
  } as unknown as Redis; // as much of it as is read of one that is not ready
  await t.throwsAsync(waitForRedis([away, wrong], { signal: never, log }), { name: 'StartError' });
  await sleep(0); // the one that waits hears of it
  const before = looks;
  await sleep(300); // it would look several times
  t.is(looks, before);
});

test('a Redis that may evict data is rejected, and one without an append-only file is logged as a warning', async (t) => {
  await using own = await startPrivateRedis();
  const { log, lines } = recordedLog();
  await waitForRedis([own.redis], { signal: never, log });
  t.deepEqual(lines, []);

  await own.redis.config('SET', 'appendonly', 'no');
  await waitForRedis([own.redis], { signal: never, log });
  t.is(lines.length, 1);
  t.is(lines[0]?.level, 'warn');
  t.regex(lines[0]?.message ?? '', /append-only/);

  for (const policy of ['allkeys-lru', 'volatile-ttl', 'allkeys-random']) {
    await own.redis.config('SET', 'maxmemory-policy', policy);
    await t.throwsAsync(waitForRedis([own.redis], { signal: never, log }), {
      message: new RegExp(`${policy}.*noeviction`),
    });
  }
});

test('waits for a Redis whose user may not run INFO, with pauses, and logs the missing permission', async (t) => {
  await using own = await startPrivateRedis();
  await own.redis.call('ACL', 'SETUSER', 'limited', 'on', '>password', '~*', '+@all', '-info');
  const { log, lines } = recordedLog();
  const limited = connectForRequests(own.server.url.replace('//', '//limited:password@'), log);
  t.teardown(() => limited.disconnect());
  const ready = waitForRedis([limited], { signal: never, log });
  const asking = () => lines.filter(({ message }) => /Grant it \+info/.test(message)).length;
  while (asking() === 0) await sleep(5);
  const [first, since] = [asking(), performance.now()];
  while (asking() === first) await sleep(5);
  t.true(performance.now() - since > 500, 'it pauses between two attempts');
  await own.redis.call('ACL', 'SETUSER', 'limited', '+info');
  await t.notThrowsAsync(ready);
});

test('a second Redis whose user may not run INFO is used, with one warning', async (t) => {
  await using own = await startPrivateRedis();
  await own.redis.call('ACL', 'SETUSER', 'limited', 'on', '>password', '~*', '+@all', '-info');
  const { log, lines } = recordedLog();
  const limited = connectForRequests(own.server.url.replace('//', '//limited:password@'), log);
  t.teardown(() => limited.disconnect());
  t.true((await waitForRedis([own.redis, limited], { signal: never, log })).memoryBytes > 0);
  t.deepEqual(
    lines.map(({ level, message }) => [level, message]),
    [['warn', 'A Redis user may not run INFO, which shows whether Redis is a cluster. Grant it +info']],
  );
});

test('a node of a Redis Cluster is rejected with an explanation', async (t) => {
  await using own = await startPrivateRedis();
  const { log } = recordedLog();
  const info = (await own.redis.info()).replace('cluster_enabled:0', 'cluster_enabled:1');
  const node = own.connect();
  await waitUntilReady(node, never);
  Object.assign(node, { info: async () => info });
  for (const connections of [[node], [own.redis, node]] as const) {
    await t.throwsAsync(waitForRedis(connections, { signal: never, log }), { message: /is a node of a Redis Cluster/ });
  }
});

test('the memory of Redis is its maxmemory, or else that of its machine', async (t) => {
  await using own = await startPrivateRedis();
  const { log } = recordedLog();
  const unlimited = await waitForRedis([own.redis], { signal: never, log });
  t.true(unlimited.memoryBytes > 1_000_000_000, `${unlimited.memoryBytes}`);
  await own.redis.config('SET', 'maxmemory', '300mb');
  t.is((await waitForRedis([own.redis], { signal: never, log })).memoryBytes, 300 * 1_048_576);
});

test('a script is loaded again if Redis has lost it', async (t) => {
  await using own = await startPrivateRedis();
  const run = loadScript(own.redis, {
    ...{ name: 'echo1', lua: 'return {KEYS[1], ARGV[1], ARGV[2]}' },
    ...({ keys: 'key', args: 'text number' } as const),
  });
  t.deepEqual(await run({ key: 'key', text: 'text', number: 5 }), ['key', 'text', '5']);
  await own.redis.script('FLUSH');
  t.deepEqual(await run({ key: 'key', text: 'text', number: 5 }), ['key', 'text', '5']);
});

test('a connection to a Redis that became a replica is closed, and the rejected call is not sent again', async (t) => {
  await using own = await startPrivateRedis();
  for (const connect of [connectForRequests, connectForWork]) {
    const redis = connect(own.server.url, recordedLog().log);
    t.teardown(() => redis.disconnect());
    await waitUntilReady(redis, never);
    await own.redis.replicaof('127.0.0.1', '1');
    const closed = new Promise((resolve) => redis.once('close', resolve));
    await t.throwsAsync(redis.incr('counted'), { message: /^READONLY/ });
    await closed;
    await own.redis.replicaof('NO', 'ONE');
    await waitUntilReady(redis, never);
    t.is(await redis.get('counted'), null);
  }
});

test('calls of one turn of the event loop are sent in a few pieces', async (t) => {
  await using own = await startPrivateRedis();
  const redis = connectForRequests(own.server.url, recordedLog().log);
  t.teardown(() => redis.disconnect());
  await waitUntilReady(redis, never);
  const reads = async () => Number(/^total_reads_processed:(\d+)/m.exec(await own.redis.info('stats'))?.[1]);
  const before = await reads();
  const calls = Array.from({ length: 200 }, () => redis.incr('counted'));
  t.is((await Promise.all(calls)).at(-1), 200);
  const pieces = (await reads()) - before;
  t.true(pieces < 20, `${pieces} pieces for 200 calls`);
});

test('strings are returned in the order of their keys, with one command per thousand', async (t) => {
  await using own = await startPrivateRedis();
  const keys = Array.from({ length: 2_001 }, (_, index) => `key-${index}`);
  await own.redis.mset(keys.flatMap((key, index) => (index % 3 === 0 ? [] : [key, `value-${index}`])));
  await own.redis.zadd('key-0', 0, 'not a string');
  await using watch = await watchRedis(own.url);
  let values: (string | null | undefined)[] = [];
  const asked = await watch.during(async () => {
    values = await readStrings(own.redis, keys);
  });
  t.deepEqual(
    values,
    keys.map((_, index) => (index % 3 === 0 ? null : `value-${index}`)),
  );
  t.deepEqual(
    asked.map((command) => command.length - 1),
    [1_000, 1_000, 1],
  );
  t.deepEqual(await readStrings(own.redis, []), []);
});

test('a failure says why there is no time', async (t) => {
  await using own = await openRedisDatabase();
  const away = own.connect();
  away.disconnect();
  await t.throwsAsync(redisNow(away), { message: 'Connection is closed.' });

  const cluster = new Cluster(['127.0.0.1:1'], { lazyConnect: true });
  await t.throwsAsync(redisNow(cluster), { message: 'no node of the Redis Cluster is connected' });
  cluster.nodes = () => mastersOf(away);
  await t.throwsAsync(redisNow(cluster), { message: 'Connection is closed.' });
  cluster.nodes = () => [away, own.redis].flatMap(mastersOf);
  t.true(Math.abs((await redisNow(cluster)) - Date.now()) < 5_000);
});

const cluster = new Cluster(['127.0.0.1:1'], { lazyConnect: true });
const failed = (error: unknown) => ifAvailable(cluster, Promise.reject(error));

test('in a cluster, the value of an unavailable node is unknown', async (t) => {
  for (const answer of [
    'CLUSTERDOWN The cluster is down',
    'LOADING Redis is loading the dataset in memory',
    'MASTERDOWN Link with MASTER is down',
    "READONLY You can't write against a read only replica.",
    'MOVED 7 10.0.0.1:6379',
    'ASK 7 10.0.0.1:6379',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'BUSY Redis is busy running a script',
    'NOREPLICAS Not enough good replicas to write.',
    'MISCONF Redis is configured to save RDB snapshots, but is unable to persist to disk.',
  ]) {
    t.is(await failed(new ReplyError(answer)), undefined, answer);
  }
  for (const message of ['Connection is closed.', 'Command timed out', 'None of startup nodes is available'])
    t.is(await failed(new Error(message)), undefined);
  t.is(await failed(new AggregateError([], 'connect ECONNREFUSED')), undefined);
  t.is(await ifAvailable(cluster, Promise.resolve(7)), 7);
});

test('in a cluster, a call that is refused or wrong fails', async (t) => {
  for (const error of [
    new ReplyError("NOPERM User svc has no permissions to run the 'getex' command"),
    new ReplyError('NOAUTH Authentication required.'),
    new ReplyError('WRONGTYPE Operation against a key holding the wrong kind of value'),
    new ReplyError('ERR user_script:1: Script attempted to access nonexistent global variable'),
    new ReplyError("OOM command not allowed when used memory > 'maxmemory'."),
    new TypeError('not a function'),
  ]) {
    t.is(await t.throwsAsync(failed(error)), error);
  }
});

test('a closed connection is an unavailable node in a cluster, and a failure without one', async (t) => {
  await using own = await openRedisDatabase();
  const away = own.connect();
  away.disconnect();
  t.is(await ifAvailable(cluster, away.get('key')), undefined);
  await t.throwsAsync(ifAvailable(own.redis, away.get('key')), { message: 'Connection is closed.' });
});
