import test from 'ava';
import { ulid } from 'ulid';
import {
  createFindAnyRequest,
  createFindRequest,
  createListRequests,
  type RequestPlaces,
} from '../../../ingress/requests/find-requests.ts';
import { createReadLeases, createReadWaitingUsage } from '../../../ingress/requests/read-running-requests.ts';
import { endedRequestKey, outboxKey, partitionOf } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageStore } from '../../../shared/store/usage/usage-store.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';
import { openRequests } from '../../support/requests-side.ts';

const noon = Date.UTC(2030, 4, 15, 12);
let own: RedisDatabase;
let store: Store;
let setTime: (nowMs: number) => Promise<void>;
const parts = new AsyncDisposableStack();

test.before(async () => {
  own = parts.use(await openRedisDatabase());
  setTime = replaceClock(own.redis);
  await setTime(noon);
  const home = parts.use(await createSqliteHome());
  store = parts.use(await home.open());
});

test.after.always(() => parts.disposeAsync());

type Read = () => Promise<unknown>;

/** The places, with `between` before each read. */
function placesWith(between: Read): RequestPlaces {
  const leases = createReadLeases(own.redis);
  const waiting = createReadWaitingUsage(own.redis);
  const after =
    <Words extends unknown[], Found>(read: (...words: Words) => Promise<Found>) =>
    async (...words: Words) => {
      await between();
      return read(...words);
    };
  return {
    leases: { find: after(leases.find), list: after(leases.list) },
    waitingUsage: {
      findSettled: after(waiting.findSettled),
      list: after(waiting.list),
      listOf: after(waiting.listOf),
    },
    store: {
      usage: {
        ...store.usage,
        findUsageRecord: after((id: string) => store.usage.findUsageRecord(id)),
        findUsageByAnswer: after((...words: [string, string]) => store.usage.findUsageByAnswer(...words)),
        listUsageRecords: after((...words: Parameters<UsageStore['listUsageRecords']>) =>
          store.usage.listUsageRecords(...words),
        ),
      },
    },
  };
}

/** Every way in which `moves` moves can happen before `reads` reads, and between them. */
function* schedules(moves: number, reads: number): Generator<number[]> {
  if (reads === 0) return yield [];
  for (let first = 0; first <= moves; first++) {
    for (const rest of schedules(moves - first, reads - 1)) yield [first, ...rest];
  }
}

type Ends = 'settled' | 'settled and no longer marked' | 'lost';

/** A request of a new account, and its moves from its lease to the store alone. */
async function moving(end: Ends) {
  const account = `user:${ulid()}`;
  const side = openRequests(own.redis, { account, store });
  await side.prepare('2030-05');
  const requestId = `req_${ulid()}`;
  const answerId = `8f-${ulid()}`;
  await side.admit(requestId);
  await side.start(requestId);
  const endings: Record<Ends, () => Promise<unknown>> = {
    settled: () => side.settle(requestId, { answerId }),
    async 'settled and no longer marked'() {
      await side.settle(requestId, { answerId });
      await own.redis.del(endedRequestKey(account, requestId));
    },
    async lost() {
      await setTime(noon + 3_600_000);
      await side.expire();
      await setTime(noon);
    },
  };
  const moves = [endings[end], side.drain, side.trim];
  return { account, requestId, answerId, moves };
}

for (const end of ['settled', 'settled and no longer marked', 'lost'] as const) {
  test.serial(`a request that is ${end} is found by its id, however it moves during the look-up`, async (t) => {
    let wasRunning = 0;
    for (const schedule of schedules(3, 4)) {
      const { account, requestId, moves } = await moving(end);
      const steps = [...schedule];
      const find = createFindRequest(
        placesWith(async () => {
          for (let move = steps.shift() ?? 0; move > 0; move--) await moves.shift()?.();
        }),
      );
      const found = await find(account, requestId);
      t.is(found?.requestId, requestId, String(schedule));
      if (found?.state !== 'ended') wasRunning++;
    }
    t.true(wasRunning > 0);
  });
}

for (const end of ['settled', 'settled and no longer marked', 'lost'] as const) {
  test.serial(`a request of any account that is ${end} is found, however it moves during the look-up`, async (t) => {
    let wasRunning = 0;
    for (const schedule of schedules(3, 4)) {
      const { account, requestId, moves } = await moving(end);
      const steps = [...schedule];
      const places = placesWith(async () => {
        for (let move = steps.shift() ?? 0; move > 0; move--) await moves.shift()?.();
      });
      // Other accounts are asked for their leases, too: the moves are before the reads that are of this request.
      const findLease = createReadLeases(own.redis).find;
      const find: typeof findLease = (of, id) => (of === account ? places.leases.find(of, id) : findLease(of, id));
      const findAny = createFindAnyRequest({ ...places, leases: { ...places.leases, find }, redis: own.redis });
      const found = await findAny(requestId);
      t.is(found?.account, account, String(schedule));
      t.is(found?.request.requestId, requestId);
      if (found?.request.state !== 'ended') wasRunning++;
    }
    t.true(wasRunning > 0);
  });
}

test.serial('an ended request is found by the id of its answer, however it moves during the look-up', async (t) => {
  for (const schedule of schedules(2, 2)) {
    const { account, requestId, answerId, moves } = await moving('settled');
    await moves.shift()?.();
    const steps = [...schedule];
    const find = createFindRequest(
      placesWith(async () => {
        for (let move = steps.shift() ?? 0; move > 0; move--) await moves.shift()?.();
      }),
    );
    t.is((await find(account, answerId))?.requestId, requestId, String(schedule));
  }
});

for (const end of ['settled', 'lost'] as const) {
  test.serial(`a request that is ${end} is listed exactly once, however it moves during the listing`, async (t) => {
    for (const schedule of schedules(3, 3)) {
      const { account, requestId, moves } = await moving(end);
      const steps = [...schedule];
      const list = createListRequests(
        placesWith(async () => {
          for (let move = steps.shift() ?? 0; move > 0; move--) await moves.shift()?.();
        }),
      );
      const { requests, hasMore } = await list(account, { limit: 20, filter: {} });
      t.deepEqual([requests.map(({ request }) => request.requestId), hasMore], [[requestId], false], String(schedule));
    }
  });
}

test.serial(
  'while too many records wait, an unknown request is unavailable, and the newest is still found by its id',
  async (t) => {
    const account = `user:${ulid()}`;
    const side = openRequests(own.redis, { account, store });
    await side.prepare('2030-05');
    const stream = outboxKey(partitionOf(account));
    const pipeline = own.redis.pipeline();
    for (let entry = 0; entry < 5_000; entry++)
      pipeline.xadd(stream, '*', 'request', `req_${entry}`, 'account', 'user:other');
    await pipeline.exec();
    const [requestId, answerId] = [`req_${ulid()}`, 'answer-of-newest'];
    await side.admit(requestId);
    await side.start(requestId);
    await side.settle(requestId, { answerId });
    t.is((await side.find(account, requestId))?.state, 'ended');
    await t.throwsAsync(side.find(account, `req_${ulid()}`), { code: 'SERVICE_UNAVAILABLE' });
    await t.throwsAsync(side.findAny(`req_${ulid()}`), { code: 'SERVICE_UNAVAILABLE' });
    await t.throwsAsync(side.find(account, answerId), { code: 'SERVICE_UNAVAILABLE' });
    await t.throwsAsync(side.list(account, { limit: 1, filter: {} }), { code: 'SERVICE_UNAVAILABLE' });
    await own.redis.del(stream);
  },
);
