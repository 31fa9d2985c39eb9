import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { waitForJobs } from '../../../workers/queue/wait-for-jobs.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

/** Waits for the markers that `markers` returns. */
function open(t: ExecutionContext, markers: Set<string>, bellKey = 'bell') {
  const heard: [string, number][] = [];
  const { log, lines } = recordedLog();
  const wait = waitForJobs({
    ...{ reader: own.connect(), redis: own.redis, bellKey, log },
    markers: (except) => [...markers].filter((marker) => !except?.has(marker)),
    onMarker(marker, at) {
      heard.push([marker, at]);
      return undefined;
    },
  });
  t.teardown(() => wait[Symbol.asyncDispose]());
  const until = async (count: number) => {
    while (heard.length < count) await sleep(2);
  };
  return { wait, heard, until, lines };
}

/** How many clients of this database are blocked. */
async function waitingClients(): Promise<number> {
  const database = new URL(own.url).pathname.slice(1);
  const list = (await own.redis.client('LIST')) as string;
  return list.split('\n').filter((line) => line.includes(` db=${database} `) && line.includes(' flags=b ')).length;
}

const mark = (marker: string, at = 0) => own.redis.zadd(marker, at, '0');

test.serial('reports each marker once, with the time its job is due', async (t) => {
  const { heard, until } = open(t, new Set(['m', 'n']));
  await mark('n');
  await until(1);
  await mark('m', 1_900_000_000_000);
  await until(2);
  t.deepEqual(heard, [
    ['n', 0],
    ['m', 1_900_000_000_000],
  ]);
  t.is(await own.redis.exists('m', 'n'), 0);
});

test.serial('a queue that is added is awaited at once, and the wake-up leaves nothing in Redis', async (t) => {
  const markers = new Set(['m']);
  const { wait, until, heard } = open(t, markers);
  await mark('n');
  await sleep(50);
  t.deepEqual(heard, []);
  markers.add('n');
  wait.changed();
  await until(1);
  t.deepEqual(heard, [['n', 0]]);
  t.is(await own.redis.exists('bell'), 0);
});

test.serial('a marker wakes one of several waiting workers, and they take turns', async (t) => {
  const both = [open(t, new Set(['m']), 'bell 1'), open(t, new Set(['m']), 'bell 2')];
  for (let marks = 1; marks <= 20; marks++) {
    await mark('m');
    while (both.reduce((sum, { heard }) => sum + heard.length, 0) < marks) await sleep(2);
    while ((await waitingClients()) < both.length) await sleep(2);
  }
  const counts = both.map(({ heard }) => heard.length);
  t.true(Math.min(...counts) >= 8, String(counts));
});

test.serial('with no queues it waits only for its wake-up, and ends at once', async (t) => {
  const markers = new Set<string>();
  const { wait, until, lines } = open(t, markers);
  await mark('m');
  await sleep(30);
  markers.add('m');
  wait.changed();
  await until(1);
  const asLong = own.connect().bzpopmin('nothing', 4); // as long as one of its own waits
  const ended = wait[Symbol.asyncDispose]().then(() => 'ended');
  t.is(await Promise.race([ended, asLong]), 'ended', 'not only when its wait has timed out');
  t.deepEqual(lines, []);
});

test.serial('waits again after its connection was lost', async (t) => {
  const { until, heard } = open(t, new Set(['m']));
  await mark('m');
  await until(1);
  await own.redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await mark('m');
  await until(2);
  t.is(heard.length, 2);
});
