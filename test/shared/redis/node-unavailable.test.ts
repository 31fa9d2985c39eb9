import test from 'ava';
import { Cluster, ReplyError } from 'ioredis';
import { ifAvailable } from '../../../shared/redis/connections.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';

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
