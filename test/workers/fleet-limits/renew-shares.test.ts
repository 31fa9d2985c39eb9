import test from 'ava';
import { sharesExpiryKey, sharesKey } from '../../../shared/redis/keys.ts';
import { batchCallsMax, shareMs } from '../../../workers/fleet-limits/renew-shares.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { type Random, seededRandom } from '../../support/random.ts';
import { replaceClock } from '../../support/redis-clock.ts';
import { openSharesSide, pool, type SharesSide } from '../../support/shares-side.ts';
import { sized } from '../../support/size.ts';

let own: RedisDatabase;
let setTime: (ms: number) => Promise<void>;

test.before(async () => {
  own = await openRedisDatabase();
  setTime = replaceClock(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

async function open(
  limit: number | undefined,
  { isOfSeveralPools = false, isPreferred = false } = {},
): Promise<SharesSide> {
  const side = openSharesSide(own.redis, { limit, setTime, isOfSeveralPools, isPreferred });
  await side.pass(0);
  return side;
}

/** All workers renew each second, with waiting jobs everywhere. */
async function renewAll(side: SharesSide, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const holder of side.holders) await side.renew(holder, 'wants');
    await side.pass(1_000);
  }
}

for (const limit of [1, 2, 5, 6, 64, 1_000]) {
  test.serial(
    `workers start, stop and are killed: the shares never exceed a limit of ${limit}, and soon use all of it`,
    async (t) => {
      const side = await open(limit);
      for (const count of [1, 3, 8, 8, 2, 1]) {
        while (side.holders.length < count) side.join();
        while (side.holders.length > count) {
          const [leaving] = side.holders;
          if (leaving === undefined) break;
          if (side.holders.length % 2 === 0) await side.leave(leaving);
          else side.kill(leaving);
        }
        for (let round = 0; round < 6; round++) {
          await renewAll(side, 1);
          t.true(side.granted() <= limit, `${side.granted()} for ${count} workers`);
        }
        t.is(side.granted(), limit, `${count} workers`);
      }
    },
  );
}

test.serial(
  'workers that all have waiting jobs get the same share, or one more if the limit is not divisible',
  async (t) => {
    const side = await open(10);
    for (let workers = 0; workers < 4; workers++) side.join();
    await renewAll(side, 6);
    t.deepEqual(side.holders.map(({ share }) => share.calls).sort(), [2, 2, 3, 3]);
  },
);

test.serial('a worker without jobs leaves its part to others, and gets a part back when it has jobs', async (t) => {
  const side = await open(10);
  const [busy, idle] = [side.join(), side.join()];
  for (let round = 0; round < 3; round++) {
    await side.renew(idle, 'idle');
    await side.renew(busy, 'wants');
    await side.pass(1_000);
  }
  t.deepEqual([busy.share.calls, idle.share.calls], [9, 1]);
  busy.calls = 9;
  await side.renew(idle, 'wants');
  t.is(idle.share.calls, 1, "the other worker's share is not taken away");
  await side.renew(busy, 'wants');
  busy.calls = 5;
  await side.renew(busy, 'wants');
  await side.renew(idle, 'wants');
  t.deepEqual([busy.share.calls, idle.share.calls], [5, 5]);
});

test.serial(
  'workers with more than their part make room for one with less; an idle one keeps a call if there is one for each',
  async (t) => {
    for (const { limit, idle, busy, calls } of [
      { limit: 9, idle: 0, busy: 4, calls: [2, 2, 2, 3] },
      { limit: 1, idle: 1, busy: 1, calls: [0, 1] },
      { limit: 3, idle: 3, busy: 1, calls: [0, 0, 0, 3] },
      { limit: 10, idle: 1, busy: 3, calls: [1, 3, 3, 3] },
    ]) {
      await own.redis.flushdb();
      const side = await open(limit);
      const holders = Array.from({ length: idle + busy }, () => side.join());
      for (let round = 0; round < 8; round++) {
        for (const [index, holder] of holders.entries()) await side.renew(holder, index < idle ? 'idle' : 'wants');
        await side.pass(500);
      }
      t.deepEqual(holders.map(({ share }) => share.calls).toSorted(), calls, `${limit}`);
    }
  },
);

for (const { isPreferred, idle, some } of [
  { isPreferred: false, idle: [16, 16, 16, 16], some: [27, 15, 11, 11] },
  { isPreferred: true, idle: [8, 8, 8, 8], some: [22, 10, 6, 6] },
]) {
  const part = isPreferred ? 'half of what is free, if requests need this backend' : 'what is free';
  test.serial(`while no worker waits, each keeps its calls and a part of ${part}`, async (t) => {
    const side = await open(64, { isPreferred });
    const holders = Array.from({ length: 4 }, () => side.join());
    const shares = async (...calls: number[]) => {
      for (const [index, holder] of holders.entries()) holder.calls = calls[index] ?? 0;
      for (let round = 0; round < 3; round++) {
        for (const holder of holders) await side.renew(holder, 'idle');
        await side.pass(500);
        t.true(side.granted() <= 64);
      }
      return holders.map(({ share }) => share.calls);
    };
    t.deepEqual(await shares(0, 0, 0, 0), idle);
    t.deepEqual(await shares(16, 4, 0, 0), some);
    const [first, ...others] = holders;
    for (const holder of others) await side.leave(holder);
    if (first !== undefined) await side.renew(first, 'idle');
    t.is(first?.share.calls, 64, 'a worker alone has all of it');
  });
}

test.serial(
  'a worker that renews as soon as it has used its part finds a free slot, however many it has used',
  async (t) => {
    const side = await open(8, { isPreferred: true });
    const [busy, ...others] = Array.from({ length: 4 }, () => side.join());
    if (busy === undefined) return t.fail();
    for (let round = 0; round < 2; round++) for (const holder of side.holders) await side.renew(holder, 'idle');
    t.deepEqual(
      side.holders.map(({ share }) => share.calls),
      [1, 1, 1, 1],
    );
    for (let calls = 1; calls <= 5; calls++) {
      t.true(side.mayBegin(busy), `call ${calls}`);
      busy.calls = calls;
      await side.renew(busy, 'idle');
    }
    t.is(side.granted(), 8);
    t.deepEqual(
      others.map(({ share }) => share.calls),
      [1, 1, 1],
      'the others keep theirs',
    );
  },
);

test.serial('a renewal returns the calls of the other workers in flight, also without a limit', async (t) => {
  for (const limit of [8, undefined]) {
    await own.redis.flushdb();
    const side = await open(limit);
    const [one, other, third] = [side.join(), side.join(), side.join()];
    [one.calls, other.calls, third.calls] = [1, 2, 3];
    const elsewhere = async (holder: typeof one) => (await side.renew(holder, 'idle')).callsElsewhere.get('a');
    t.deepEqual([await elsewhere(one), await elsewhere(other), await elsewhere(third)], [0, 1, 3]);
    t.deepEqual([await elsewhere(one), await elsewhere(other)], [5, 4]);
    await side.leave(third);
    t.deepEqual([await elsewhere(one), await elsewhere(other)], [2, 1]);
  }
});

test.serial('a worker at its max number of jobs keeps no call that others need', async (t) => {
  const side = await open(20);
  const holders = Array.from({ length: 9 }, () => side.join());
  for (let round = 0; round < 10; round++) {
    for (const holder of holders) {
      await side.renew(holder, holder.calls < 2 ? 'wants' : 'idle');
      while (side.mayBegin(holder) && holder.calls < 2) holder.calls++;
    }
    await side.pass(500);
  }
  t.is(side.inFlight(), 18);
});

test.serial('workers of each pool get calls of a shared backend, even if its limit is low', async (t) => {
  for (const { limit, perPool } of [
    { limit: 3, perPool: [3, 1] },
    { limit: 1, perPool: [3, 2] },
    { limit: 2, perPool: [2, 2, 2] },
  ]) {
    await own.redis.flushdb();
    const side = await open(limit, { isOfSeveralPools: true });
    const holders = perPool.flatMap((count, index) => Array.from({ length: count }, () => side.join(`pool-${index}`)));
    const begun = new Map<string, number>();
    for (let round = 0; round < 100; round++) {
      for (const holder of holders) {
        await side.renew(holder, 'wants');
        for (; side.mayBegin(holder); holder.calls++) begun.set(holder.pool, (begun.get(holder.pool) ?? 0) + 1);
      }
      t.true(side.inFlight() <= limit);
      // A call takes two rounds.
      if (round % 2 === 1) for (const holder of holders) holder.calls = 0;
      await side.pass(200);
    }
    const counts = [...begun.values()];
    t.is(counts.length, perPool.length, `${limit}`);
    // Each pool has had calls repeatedly, and nearly all of the limit was used.
    t.true(Math.min(...counts) >= 10, `${limit}: ${counts}`);
    t.log(`${limit} at once: ${counts}`);
  }
});

test.serial('a worker that renews after its share has expired, before another has taken it, counts once', async (t) => {
  const side = await open(8);
  const [late, other] = [side.join(), side.join()];
  await renewAll(side, 5);
  for (const ms of [0, 900]) {
    await side.pass(ms);
    await side.renew(other, 'wants');
  }
  await side.pass(200);
  await side.renew(late, 'wants');
  await side.renew(other, 'wants');
  t.deepEqual([late.share.calls, other.share.calls].toSorted(), [4, 4]);
  t.is(await own.redis.hget(sharesKey(), 'backend a'), '2 8 2 8 8 0 0 0 0 ');
  t.is((await side.renew(late, 'wants')).pools.get(pool)?.workers, 2);
});

test.serial('a share expires 2 s after its last renewal, and not a millisecond earlier', async (t) => {
  const side = await open(4);
  const [dead, living] = [side.join(), side.join()];
  await renewAll(side, 5);
  await side.renew(dead, 'wants');
  dead.calls = 4;
  side.kill(dead);
  const diedAt = side.now();
  while (side.now() < diedAt + shareMs - 1) {
    await side.renew(living, 'wants');
    t.is(living.share.calls, 2, `after ${side.now() - diedAt} ms`);
    await side.pass(Math.min(1_000, diedAt + shareMs - 1 - side.now()));
  }
  await side.renew(living, 'wants');
  t.is(living.share.calls, 2);
  await side.pass(1);
  await side.renew(living, 'wants');
  t.is(living.share.calls, 4);
});

test.serial('after Redis was unavailable, each worker gets back what it has in flight, in any order', async (t) => {
  const side = await open(6);
  const holders = [side.join(), side.join(), side.join()];
  await renewAll(side, 5);
  for (const holder of holders) holder.calls = holder.share.calls;
  await side.pass(60_000);
  const [first, second, third] = holders;
  if (first === undefined || second === undefined || third === undefined) return t.fail();
  for (let round = 0; round < 8; round++) {
    await side.renew(first, 'wants');
    t.is(first.share.calls, 2, `round ${round}`);
    await side.pass(200);
  }
  for (const holder of [second, third]) await side.renew(holder, 'wants');
  t.deepEqual(
    holders.map(({ share }) => share.calls),
    [2, 2, 2],
  );
});

test.serial(
  'after Redis has lost its data, nothing new is granted until each worker has reported its calls in flight',
  async (t) => {
    const side = await open(6);
    const holders = [side.join(), side.join()];
    await renewAll(side, 5);
    for (const holder of holders) holder.calls = 3;
    await own.redis.flushdb();
    await side.pass(0);
    const [first, second] = holders;
    if (first === undefined || second === undefined) return t.fail();
    for (let round = 0; round < 2; round++) {
      await side.renew(first, 'wants');
      t.is(first.share.calls, 3);
      await side.pass(900);
    }
    const fresh = side.join();
    await side.renew(fresh, 'wants');
    t.is(fresh.share.calls, 0);
    await side.renew(second, 'wants');
    t.is(second.share.calls, 2, 'a third of the limit is for the new worker, when it is free');
  },
);

test.serial('a clock that is set back, or far ahead, expires no share too early or too late', async (t) => {
  const side = await open(4);
  const [one, other] = [side.join(), side.join()];
  await renewAll(side, 5);
  for (const holder of [one, other]) holder.calls = 2;
  for (const ms of [-3_600_000, 7_200_000]) {
    await side.pass(ms);
    await side.renew(one, 'wants');
    t.is(one.share.calls, 2, `${ms}`);
    await side.renew(other, 'wants');
    t.is(side.granted(), 4, `${ms}`);
  }
  side.kill(other);
  await renewAll(side, 8);
  t.is(one.share.calls, 4);
});

test.serial(
  'while clients send requests, lines of batches leave room for the next one, across all workers',
  async (t) => {
    const side = await open(16);
    const holders = [side.join(), side.join(), side.join()];
    const batchCalls = () => holders.reduce((sum, { share }) => sum + share.batchCalls, 0);
    await renewAll(side, 4);
    t.is(batchCalls(), 16, 'no client sends requests');
    for (const holder of holders) await side.renew(holder, 'wants', { isAsked: true });
    for (const holder of holders) await side.renew(holder, 'wants');
    t.is(batchCalls(), batchCallsMax(16));
    t.is(batchCallsMax(16), 14);
    await side.pass(4_999);
    for (const holder of holders) await side.renew(holder, 'wants');
    t.is(batchCalls(), 14);
    await side.pass(1);
    for (const holder of holders) await side.renew(holder, 'wants');
    t.is(batchCalls(), 16);
    t.is(batchCallsMax(1), 1, 'otherwise a backend with one slot would never run a line');
  },
);

test.serial(
  'one worker of a pool looks for stalled jobs, and another one after it leaves, stops or is killed',
  async (t) => {
    const side = await open(4);
    const [one, other] = [side.join(), side.join()];
    const checks = async (holder: typeof one) => (await side.renew(holder, 'idle')).pools.get(pool);
    t.deepEqual(await checks(one), { workers: 1, checksStalled: true });
    t.deepEqual(await checks(other), { workers: 2, checksStalled: false });
    t.deepEqual(await checks(one), { workers: 2, checksStalled: true });
    await side.renew(one, 'stops');
    t.deepEqual(await checks(other), { workers: 1, checksStalled: true }, 'the first takes no more jobs');
    t.deepEqual(await checks(one), { workers: 2, checksStalled: false });
    side.kill(other);
    for (let seconds = 0; seconds < 2; seconds++) {
      t.deepEqual(await checks(one), { workers: 2, checksStalled: false });
      await side.pass(1_000);
    }
    t.deepEqual(await checks(one), { workers: 1, checksStalled: true });
    await side.leave(one);
    t.is(await own.redis.zcard(sharesExpiryKey()), 0);
    t.deepEqual(
      (await own.redis.hkeys(sharesKey())).filter((field) => field.startsWith('worker ')),
      [],
    );
  },
);

test.serial('no order of events puts more calls in flight than the limit', async (t) => {
  for (let round = 0; round < sized(30); round++) {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = seededRandom(seed);
    const limit = Math.floor(random.between(1, 13));
    await own.redis.flushdb();
    const side = await open(limit, { isOfSeveralPools: random() < 0.5, isPreferred: random() < 0.5 });
    let redisLostAt = Number.NEGATIVE_INFINITY;
    for (let step = 0; step < 150; step++) {
      redisLostAt = await takeStep(side, random, redisLostAt);
      t.true(side.inFlight() <= limit, `seed ${seed}, step ${step}: ${side.inFlight()} of ${limit}`);
    }
  }
});

/** Each live worker renews once a second. */
async function renewOverdue(side: SharesSide, random: Random): Promise<void> {
  const overdue = side.holders.filter(({ expiresAt }) => side.now() - (expiresAt - shareMs) >= 500);
  for (const holder of overdue.toSorted(() => random() - 0.5)) {
    await side.pass(Math.floor(random.between(0, 400 / overdue.length)));
    await side.renew(holder, random() < 0.7 ? 'wants' : 'idle');
  }
}

/** When Redis last lost its data. */
async function takeStep(side: SharesSide, random: Random, redisLostAt: number): Promise<number> {
  const holder = side.holders[Math.floor(random() * side.holders.length)];
  const event = random();
  // A worker that has just started, with a Redis that has lost its data, is the only case in which a limit can be exceeded.
  const mayJoin = side.now() - redisLostAt > 2 * shareMs && side.holders.length < 6;
  if (holder === undefined || (event < 0.05 && mayJoin)) {
    if (mayJoin) side.join(random() < 0.7 ? pool : 'another');
    else await side.pass(100);
  } else if (event < 0.07) {
    side.kill(holder);
  } else if (event < 0.09) {
    await side.leave(holder);
  } else if (event < 0.3) {
    await side.pass(Math.floor(random.between(1, 1_000)));
    await renewOverdue(side, random);
  } else if (event < 0.31) {
    // Redis was unavailable, and workers reconnect one after another.
    await side.pass(Math.floor(random.between(3_000, 30_000)));
    await renewOverdue(side, random);
  } else if (event < 0.315) {
    await own.redis.flushdb();
    await side.pass(0);
    for (const each of side.holders) await side.renew(each, 'wants');
    return side.now();
  } else if (event < 0.6) {
    await side.renew(holder, random() < 0.6 ? 'wants' : random() < 0.8 ? 'idle' : 'stops');
  } else if (event < 0.9) {
    while (side.mayBegin(holder) && random() < 0.8) holder.calls++;
  } else {
    holder.calls = Math.floor(holder.calls * random());
  }
  return redisLostAt;
}

test.serial('a backend without a limit has none until it is busy: then the calls of the fleet, less one', async (t) => {
  const side = await open(undefined);
  const [first, second] = [side.join(), side.join()];
  await side.renew(first, 'idle');
  t.is(first.share.calls, Number.POSITIVE_INFINITY);
  [first.calls, second.calls] = [6, 4];
  await side.renew(first, 'idle');
  await side.renew(second, 'wants', { busyCalls: 5 });
  t.is(second.share.calls, 4, 'six are in flight elsewhere');
});

test.serial(
  'the limit of a busy backend grows by one a second, doubles after five more without being busy, and is forgotten after a minute',
  async (t) => {
    const side = await open(undefined);
    const holder = side.join();
    await side.renew(holder, 'wants', { busyCalls: 9 });
    const seen: number[] = [holder.share.calls];
    for (let second = 1; second <= 7; second++) {
      await side.pass(500);
      await side.renew(holder, 'wants');
      await side.pass(500);
      await side.renew(holder, 'wants');
      seen.push(holder.share.calls);
    }
    t.deepEqual(seen, [8, 9, 10, 11, 12, 13, 26, 52]);
    await side.renew(holder, 'wants', { busyCalls: 50 });
    t.is(holder.share.calls, 49);
    await side.renew(holder, 'wants', { busyCalls: 60 });
    t.is(holder.share.calls, 49, 'it has been seen to be busy with fewer');
    for (let half = 0; half < 120; half++) {
      await side.pass(500);
      await side.renew(holder, 'wants');
    }
    t.is(holder.share.calls, Number.POSITIVE_INFINITY);
  },
);

test.serial('one refusal lowers a known limit by a quarter at most, and by one at least', async (t) => {
  const side = await open(undefined);
  const holder = side.join();
  const seen: number[] = [];
  for (const busyCalls of [41, 2, 2, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1]) {
    await side.renew(holder, 'wants', { busyCalls });
    seen.push(holder.share.calls);
  }
  t.deepEqual(seen, [40, 30, 23, 18, 14, 11, 9, 7, 6, 5, 4, 3, 2]);
});

test.serial('a renewal that is sent again lowers no limit once more', async (t) => {
  const side = await open(undefined);
  const holder = side.join();
  await side.renew(holder, 'wants', { busyCalls: 41 });
  const refused = { busyCalls: 2, pause: { kind: 'busy', leftMs: 5_000 } } as const;
  await side.renew(holder, 'wants', refused);
  t.is(holder.share.calls, 30);
  await side.pass(500);
  const again = await side.renew(holder, 'wants', { ...refused, isRepeated: true });
  t.is(holder.share.calls, 30);
  t.deepEqual(again.pauses.get('a'), { kind: 'busy', leftMs: 4_500 });
});

test.serial(
  'a limit that is refused as soon as it grows is tried later each time, at most every half minute',
  async (t) => {
    const side = await open(undefined);
    const holder = side.join();
    const pause = { kind: 'busy', leftMs: 250 } as const;
    await side.renew(holder, 'wants', { busyCalls: 5, pause });
    const waits: number[] = [];
    for (let tries = 0; tries < 5; tries++) {
      let seconds = 0;
      while (holder.share.calls === 4) {
        await side.pass(500);
        await side.renew(holder, 'wants');
        seconds += 0.5;
      }
      t.is(holder.share.calls, 5);
      await side.renew(holder, 'wants', { busyCalls: 5, pause });
      t.is(holder.share.calls, 4);
      waits.push(seconds);
    }
    t.deepEqual(waits, [1, 5, 10, 20, 30]);
  },
);

test.serial('a configured limit is never exceeded, and what a busy backend has shown counts below it', async (t) => {
  const side = await open(8);
  const holder = side.join();
  await side.renew(holder, 'wants', { busyCalls: 4 });
  t.is(holder.share.calls, 3);
  for (let second = 0; second < 20; second++) {
    await side.pass(1_000);
    await side.renew(holder, 'wants');
    t.true(holder.share.calls <= 8);
  }
  t.is(holder.share.calls, 8);
  await side.renew(holder, 'wants', { busyCalls: 1 });
  t.is(holder.share.calls, 1, 'never none');
});

test.serial('a pause that one worker has learned of is known to all until it ends', async (t) => {
  const side = await open(8);
  const [first, second] = [side.join(), side.join()];
  await side.renew(first, 'idle', { pause: { kind: 'busy', leftMs: 5_000 } });
  t.deepEqual((await side.renew(second, 'idle')).pauses.get('a'), { kind: 'busy', leftMs: 5_000 });
  await side.pass(1_000);
  await side.renew(second, 'idle', { pause: { kind: 'loading', leftMs: 1_000 } });
  t.deepEqual((await side.renew(first, 'idle')).pauses.get('a'), { kind: 'busy', leftMs: 4_000 });
  await side.pass(4_000);
  for (const holder of [first, second]) t.is((await side.renew(holder, 'idle')).pauses.size, 0);
});

test.serial('workers with waiting jobs share what a busy backend has room for', async (t) => {
  const side = await open(undefined);
  const holders = [side.join(), side.join(), side.join()];
  for (const holder of holders) holder.calls = 3;
  for (const holder of holders) await side.renew(holder, 'wants');
  const [first] = holders;
  if (first === undefined) return t.fail();
  await side.renew(first, 'wants', { busyCalls: 4 });
  for (const holder of holders) holder.calls = 0;
  for (let round = 0; round < 3; round++) for (const holder of holders) await side.renew(holder, 'wants');
  t.is(side.granted(), 9);
  t.deepEqual(
    holders.map(({ share }) => share.calls),
    [3, 3, 3],
  );
});
