import test from 'ava';
import { scoreOfPriority, turnOf } from '../../../ingress/queue/queue-turns.ts';
import { queueDepthsKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { openTurnsSide, type ServedJob, serveInTurns, type TurnDemand } from '../../support/turns-side.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

const every = (ticks: number, until: number) =>
  Array.from({ length: Math.floor(until / ticks) }, (_, index) => index * ticks);

const waitsOf = (served: readonly ServedJob[], account: string) =>
  served
    .filter((one) => one.account === account)
    .map(({ askedAt, takenAt }) => takenAt - askedAt)
    .sort((one, other) => one - other);

const percentile = (values: readonly number[], share: number) =>
  values[Math.ceil(values.length * share) - 1] ?? Number.NaN;

function inOrder(served: readonly ServedJob[], account: string): boolean {
  const orders = served.filter((one) => one.account === account).map(({ order }) => order);
  return orders.every((order, index) => order === index + 1);
}

test.serial('an account with 500 long jobs delays another by at most the time of one job', async (t) => {
  const jobTicks = 20;
  const crowd: TurnDemand = { account: 'crowd', at: [0], jobs: 500, ticks: jobTicks };
  const other: TurnDemand = { account: 'other', at: every(15, 560).slice(1), ticks: jobTicks };
  const alone = waitsOf(await serveInTurns(own.redis, [other], { slots: 4, until: 620 }), 'other');
  await own.redis.flushdb();
  const served = await serveInTurns(own.redis, [crowd, other], { slots: 4, until: 620 });
  const waits = waitsOf(served, 'other');
  t.is(waits.length, alone.length);
  const moved = percentile(waits, 0.95) - percentile(alone, 0.95);
  t.log(`the p95 of ${waits.length} waits: ${percentile(waits, 0.95)} ticks, alone ${percentile(alone, 0.95)}`);
  t.true(moved <= jobTicks, `${moved} ticks`);
  t.true(inOrder(served, 'crowd'));
  t.true(inOrder(served, 'other'));
});

for (const ingresses of [1, 3]) {
  test.serial(`two equal accounts share within 10 %, at ${ingresses} ingresses`, async (t) => {
    const askings = ['one', 'other'].map((account, at) => ({ account, at: [at], jobs: 40, ticks: 5, again: true }));
    const served = await serveInTurns(own.redis, askings, { slots: 6, until: 300, ingresses, countEvery: 3 });
    const [one = 0, other = 0] = ['one', 'other'].map(
      (name) => served.filter(({ account }) => account === name).length,
    );
    t.log(`${one} and ${other}`);
    t.true(Math.abs(one - other) <= (one + other) * 0.05);
  });
}

test.serial('a new ingress assigns turns like one that has run for long', async (t) => {
  await using side = openTurnsSide(own.redis, { ingresses: 2, plans: { free: 10 } });
  const one = { account: 'one', plan: 'free' };
  // The queue is repeatedly empty, so its head gives no information.
  for (let order = 1; order <= 300; order++) {
    await side.ask(0, {
      ...one,
      inFlight: 1,
      about: { asking: { account: 'one', at: [], ticks: 1 }, order, askedAt: 0 },
    });
    await side.take();
  }
  await side.count();
  const accounts = ['one', 'other'];
  for (let inFlight = 1; inFlight <= 40; inFlight++)
    for (const [index, account] of accounts.entries())
      await side.ask(index, {
        ...{ account, plan: 'free', inFlight },
        about: { asking: { account, at: [], ticks: 1 }, order: inFlight, askedAt: 0 },
      });
  const served: string[] = [];
  for (let taken = 0; taken < 40; taken++) served.push((await side.take())?.about.asking.account ?? '');
  t.is(served.filter((account) => account === 'one').length, 20);
});

test.serial('many accounts with one request each do not starve one with many', async (t) => {
  const light = Array.from({ length: 10 }, (_, index) => ({
    account: `light ${index}`,
    at: [1],
    ticks: 4,
    again: true,
  }));
  const heavy = { account: 'heavy', at: [0], jobs: 60, ticks: 4, again: true };
  const served = await serveInTurns(own.redis, [heavy, ...light], { slots: 2, until: 300 });
  const ofHeavy = served.filter(({ account }) => account === 'heavy').length;
  t.log(`${ofHeavy} of ${served.length}`);
  t.true(ofHeavy >= (served.length / 11) * 0.9, 'its share is one eleventh');
});

test.serial('the priority of a plan precedes any turn', async (t) => {
  const plans = { first: 1, free: 10 };
  const free = { account: 'free', at: [0], jobs: 30, ticks: 3 };
  const first = { account: 'first', at: [5], jobs: 30, ticks: 3, plan: 'first' };
  const served = await serveInTurns(own.redis, [free, first], { slots: 2, until: 100, plans });
  const later = served.filter(({ takenAt }) => takenAt > 5);
  t.deepEqual(
    later.slice(0, 30).map(({ account }) => account),
    Array(30).fill('first'),
  );
});

const turnsIn = async (key: string) => {
  const words = await own.redis.zrange(key, '0', '-1', 'WITHSCORES');
  return words
    .filter((_, index) => index % 2 === 1)
    .map((score) => turnOf(Math.floor(Number(score) / scoreOfPriority)));
};

async function takeAll(side: ReturnType<typeof openTurnsSide>): Promise<number[]> {
  const orders: number[] = [];
  for (let taken = await side.take(); taken !== undefined; taken = await side.take()) orders.push(taken.about.order);
  return orders;
}

const asking = { account: 'a', at: [], ticks: 1 };
const about = (order: number) => ({ asking, order, askedAt: 0 });
const ask = { account: 'a', plan: 'free' };

test.serial('before turns overflow those of waiting jobs are lowered, and no account falls behind', async (t) => {
  await using side = openTurnsSide(own.redis, { ingresses: 2, plans: { free: 10 } });
  await own.redis.hset(queueDepthsKey, 'turn 0 small-chat', 65_530);
  await side.count();
  for (let order = 1; order <= 10; order++) await side.ask(0, { ...ask, inFlight: order, about: about(order) });
  t.deepEqual([(await turnsIn(side.key))[0], (await turnsIn(side.key))[9]], [65_531, 65_540]);
  for (let taken = 1; taken <= 6; taken++) t.is((await side.take())?.about.order, taken);
  // The first ingress counts and lowers them; the other one does not know yet.
  await side.count([0]);
  t.deepEqual(await turnsIn(side.key), [1, 2, 3, 4]);
  await side.ask(1, { ...ask, account: 'b', inFlight: 1, about: about(20) });
  await side.ask(0, { ...ask, account: 'c', inFlight: 1, about: about(30) });
  t.deepEqual(await turnsIn(side.key), [1, 1, 2, 3, 4, 65_531]);
  await side.count();
  t.deepEqual(await turnsIn(side.key), [1, 1, 1, 2, 3, 4]);
  t.deepEqual(await takeAll(side), [7, 20, 30, 8, 9, 10]);
});

test.serial('an empty queue continues from the last turn at its head', async (t) => {
  await using side = openTurnsSide(own.redis, { ingresses: 1, plans: { free: 10 } });
  for (let order = 1; order <= 40; order++) await side.ask(0, { ...ask, inFlight: order, about: about(order) });
  for (let taken = 0; taken < 30; taken++) await side.take();
  await side.count();
  while ((await side.take()) !== undefined);
  await side.count();
  await side.ask(0, { ...ask, account: 'b', inFlight: 1, about: about(1) });
  t.deepEqual(await turnsIn(side.key), [41]);
});

test.serial('an idle ingress assigns early turns until its first count, and fair ones after it', async (t) => {
  await using side = openTurnsSide(own.redis, { ingresses: 2, plans: { free: 10 } });
  for (let order = 1; order <= 60; order++) await side.ask(0, { ...ask, inFlight: order, about: about(order) });
  for (let taken = 0; taken < 50; taken++) await side.take();
  await side.count([0]);
  await side.ask(1, { ...ask, account: 'b', inFlight: 1, about: about(100) });
  await side.count([1]);
  await side.ask(1, { ...ask, account: 'c', inFlight: 1, about: about(101) });
  await side.ask(0, { ...ask, account: 'd', inFlight: 1, about: about(102) });
  t.deepEqual((await takeAll(side)).slice(0, 4), [100, 51, 101, 102]);
});
