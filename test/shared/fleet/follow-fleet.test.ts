import { setImmediate as turn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { createFleetCounts } from '../../../shared/fleet/fleet-counts.ts';
import { createListWorkers, followFleet } from '../../../shared/fleet/follow-fleet.ts';
import type { FleetProcess } from '../../../shared/fleet/note-process.ts';
import { sharesExpiryKey } from '../../../shared/redis/keys.ts';
import { createRenewShares } from '../../../workers/fleet-limits/renew-shares.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const own: FleetProcess = { id: 'i', kind: 'ingress', generation: 'aaa', pools: [], issues: 0, startedAt: 1 };

function start(t: ExecutionContext, { waiting = false } = {}) {
  const noted: string[] = [];
  const left: string[] = [];
  const pauses: { ms: number; end: () => void }[] = [];
  let fails = false;
  let answers = 0;
  const { log, lines } = recordedLog();
  const fleet = followFleet({
    noteProcess: {
      async note({ generation }) {
        noted.push(generation);
        if (fails) throw new Error('Redis is unavailable');
        return [own];
      },
      leave: async (id) => void left.push(id),
    },
    describe: () => own,
    load: () => ({ kind: 'ingress', connections: 0, waiting: 0, oldest: [] }),
    counts: createFleetCounts(),
    onNoted: () => answers++,
    isWaiting: () => waiting,
    log,
    pause: (ms, signal) =>
      new Promise<void>((resolve) => {
        pauses.push({ ms, end: resolve });
        signal.addEventListener('abort', () => resolve(), { once: true });
      }),
  });
  t.teardown(() => fleet[Symbol.asyncDispose]());
  const fail = (isAway: boolean) => {
    fails = isAway;
  };
  return { fleet, noted, left, pauses, lines, fail, answers: () => answers };
}

const settled = async () => {
  for (let turns = 0; turns < 5; turns++) await turn();
};

test('a process is noted at once, regularly, and again as soon as it has changed', async (t) => {
  const { fleet, noted, pauses, answers } = start(t);
  await fleet.noted;
  await settled();
  t.deepEqual(fleet.processes(), [own]);
  t.is(pauses.at(-1)?.ms, 2_000);
  pauses.at(-1)?.end();
  await settled();
  t.is(noted.length, 2);
  fleet.changed();
  await settled();
  t.is(noted.length, 3);
  t.is(answers(), 3);
});

test('a process that waits for others asks more often', async (t) => {
  const { fleet, pauses } = start(t, { waiting: true });
  await fleet.noted;
  await settled();
  t.is(pauses[0]?.ms, 250);
});

test('while Redis is unavailable nothing is reported, and one warning is logged', async (t) => {
  const { fleet, pauses, lines, fail, answers } = start(t);
  await fleet.noted;
  fail(true);
  for (let rounds = 0; rounds < 3; rounds++) {
    await settled();
    pauses.at(-1)?.end();
  }
  await settled();
  t.is(answers(), 1);
  t.is(lines.length, 1);
  fail(false);
  pauses.at(-1)?.end();
  await settled();
  t.is(answers(), 2);
});

test('a process that stops leaves', async (t) => {
  const { fleet, left } = start(t);
  await fleet.noted;
  await fleet[Symbol.asyncDispose]();
  t.deepEqual(left, ['i']);
});

let database: RedisDatabase;

test.before(async () => {
  database = await openRedisDatabase();
});

test.after.always(() => database?.[Symbol.asyncDispose]());

test('lists the workers of a pool, or all, except those that are dead or take no more jobs', async (t) => {
  for (const [workerId, pools] of Object.entries({ one: ['a'], both: ['a', 'b'], leaving: [], dead: ['a'] }))
    await createRenewShares(database.redis, { workerId })('new', { number: 1, pools, uses: [] });
  // Shares last two seconds, which a busy machine may take for this.
  for (const alive of ['one', 'both']) await database.redis.zadd(sharesExpiryKey(), Number.MAX_SAFE_INTEGER, alive);
  await database.redis.zadd(sharesExpiryKey(), 1, 'dead');
  const listWorkers = createListWorkers(database.redis);
  t.deepEqual((await listWorkers('a')).toSorted(), ['both', 'one']);
  t.deepEqual(await listWorkers('b'), ['both']);
  t.deepEqual(await listWorkers('none'), []);
  t.deepEqual((await listWorkers()).toSorted(), ['both', 'one']);
});
