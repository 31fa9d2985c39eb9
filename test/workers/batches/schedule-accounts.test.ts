import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import fc from 'fast-check';
import { batchLockKey, batchSchedulerLockKey, controlStreamKey } from '../../../shared/redis/keys.ts';
import {
  assignAccounts,
  decodeAssignment,
  scheduleAccounts,
  shareAccounts,
} from '../../../workers/batches/schedule-accounts.ts';
import { createAcquireLock, createReleaseLock } from '../../../workers/upkeep/locks.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { watchRedis } from '../../support/watch-redis.ts';

let own: PrivateRedis;

test.before(async () => {
  own = await startPrivateRedis();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

const namesOf = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`);

/**
 * Workers that lock the accounts that they are assigned. Workers in `cut` cannot reach the store, and those in `away` cannot be reached.
 */
function openFleet(t: ExecutionContext) {
  const fleet = {
    accounts: [] as string[],
    canAssign: true,
    lister: '',
    listings: 0,
    cut: new Set<string>(),
    away: new Set<string>(),
  };
  const started = new Map<string, AsyncDisposable>();
  const live = new Set<string>();
  const gone: string[] = [];
  const assignments: { worker: string; accounts: readonly string[] }[] = [];
  t.teardown(() => Promise.all([...started.values()].map((each) => each[Symbol.asyncDispose]())));

  async function take(workerId: string, accounts: readonly string[]): Promise<void> {
    assignments.push({ worker: workerId, accounts });
    await Promise.all(accounts.map(batchLockKey).map(createAcquireLock(own.redis, { workerId, holdMs: 60_000 })));
  }

  function start(workerId: string, times: Partial<Parameters<typeof scheduleAccounts>[0]> = {}): void {
    const scheduling = scheduleAccounts({
      ...{ workerId, redis: own.redis, log: recordedLog().log },
      ...{ refreshEveryMs: 5, electEveryMs: 10, renewEveryMs: 20, ...times },
      store: {
        async listOpenAccounts() {
          if (fleet.cut.has(workerId)) throw new Error('the store is unavailable');
          fleet.lister = workerId;
          fleet.listings += 1;
          return fleet.accounts;
        },
      },
      acquireLock: createAcquireLock(own.redis, { workerId, holdMs: 2_000 }),
      releaseLock: createReleaseLock(own.redis, { workerId }),
      listWorkers: async () => [...live],
      canAssign: () => fleet.canAssign,
      async assign(worker, accounts) {
        if (fleet.away.has(worker)) throw new Error('Command timed out');
        if (!started.has(worker)) {
          gone.push(worker);
          return false;
        }
        void take(worker, accounts);
        return true;
      },
      take: (accounts) => void take(workerId, accounts),
    });
    started.set(workerId, scheduling);
    live.add(workerId);
  }

  return Object.assign(fleet, {
    assignments,
    gone,
    live,
    start,
    startAll(workers: readonly string[]): void {
      for (const worker of workers) start(worker);
    },
    async stop(workerId: string): Promise<void> {
      live.delete(workerId);
      await started.get(workerId)?.[Symbol.asyncDispose]();
      started.delete(workerId);
    },
    async holders(): Promise<(string | null)[]> {
      return fleet.accounts.length === 0 ? [] : own.redis.mget(fleet.accounts.map(batchLockKey));
    },
    async untilHeld(): Promise<Map<string, number>> {
      for (;;) {
        const holders = await this.holders();
        const counts = new Map<string, number>();
        for (const holder of holders) if (holder !== null) counts.set(holder, (counts.get(holder) ?? 0) + 1);
        if (holders.every((holder) => holder !== null)) return counts;
        await sleep(5);
      }
    },
    async listed(count: number): Promise<void> {
      const before = fleet.listings;
      while (fleet.listings < before + count) await sleep(2);
    },
  });
}

test.serial('only one worker lists accounts, and the others only try to acquire its lock', async (t) => {
  const fleet = openFleet(t);
  fleet.startAll(namesOf('worker', 10));
  fleet.accounts = namesOf('user:', 200);
  await fleet.untilHeld();
  const scheduler = await own.redis.get(batchSchedulerLockKey);
  await using watch = await watchRedis(own.url);
  const before = fleet.listings;
  const commands = await watch.during(() => fleet.listed(20));
  const listings = fleet.listings - before;
  t.is(fleet.lister, scheduler ?? '');
  const byName = Map.groupBy(commands, ([name = '']) => name.toLowerCase());
  t.deepEqual([...byName.keys()].sort(), ['evalsha', 'mget']);
  t.true((byName.get('mget')?.length ?? 0) <= listings + 1, 'one command reads the holders of all accounts');
  for (const [, , , key] of byName.get('evalsha') ?? []) t.is(key, batchSchedulerLockKey);
});

test.serial(
  'accounts are spread evenly over the workers, and new ones go to a worker that started later, up to 16 in a turn',
  async (t) => {
    const fleet = openFleet(t);
    fleet.startAll(namesOf('worker', 5));
    fleet.accounts = namesOf('user:', 203);
    const counts = await fleet.untilHeld();
    t.deepEqual([...counts.values()].sort(), [40, 40, 41, 41, 41]);
    fleet.start('late');
    fleet.accounts = namesOf('user:', 219);
    t.is((await fleet.untilHeld()).get('late'), 16);
    fleet.accounts = namesOf('user:', 240);
    t.is((await fleet.untilHeld()).get('late'), 32);
  },
);

test.serial('a worker is assigned at most 16 accounts in a turn', async (t) => {
  const fleet = openFleet(t);
  fleet.accounts = namesOf('user:', 40);
  fleet.start('alone');
  await fleet.untilHeld();
  t.deepEqual(
    fleet.assignments.map(({ accounts }) => accounts.length),
    [16, 16, 8],
  );
});

test.serial('accounts that a worker released, or whose lock expired, are assigned to others', async (t) => {
  const fleet = openFleet(t);
  fleet.startAll(['one', 'two', 'three']);
  fleet.accounts = namesOf('user:', 30);
  await fleet.untilHeld();
  const leaver = ['one', 'two', 'three'].find((worker) => worker !== fleet.lister) ?? '';
  await fleet.stop(leaver);
  const holders = await fleet.holders();
  const left = fleet.accounts.filter((_, index) => holders[index] === leaver);
  t.is(left.length, 10);
  await own.redis.del(left.map(batchLockKey)); // as a release or an expiry does
  const counts = await fleet.untilHeld();
  t.deepEqual([...counts.values()], [15, 15]);
  t.false(counts.has(leaver));
});

test.serial('a scheduler that cannot reach the store is replaced by a worker that can', async (t) => {
  const fleet = openFleet(t);
  fleet.startAll(['one', 'other']);
  await fleet.listed(1);
  const first = fleet.lister;
  fleet.cut.add(first);
  fleet.accounts = namesOf('user:', 10);
  await fleet.untilHeld();
  t.not(fleet.lister, first);
});

test.serial('the scheduler takes accounts that it cannot assign because a control stream is gone', async (t) => {
  const fleet = openFleet(t);
  fleet.live.add('gone');
  fleet.accounts = namesOf('user:', 10);
  fleet.start('live');
  t.deepEqual([...(await fleet.untilHeld())], [['live', 10]]);
  t.deepEqual(fleet.gone, ['gone']);
});

test.serial(
  'the scheduler takes the accounts of a worker that does not answer, and the others keep theirs',
  async (t) => {
    const fleet = openFleet(t);
    fleet.startAll(['one', 'two', 'three']);
    await fleet.listed(1);
    const scheduler = fleet.lister;
    const [away = '', near = ''] = ['one', 'two', 'three'].filter((worker) => worker !== scheduler);
    fleet.away.add(away);
    fleet.accounts = namesOf('user:', 30);
    const counts = await fleet.untilHeld();
    t.deepEqual([counts.get(scheduler), counts.get(near), counts.get(away)], [20, 10, undefined]);
    t.is(fleet.lister, scheduler, 'it is still the scheduler');
  },
);

test.serial('the scheduler takes all accounts while other workers cannot be reached', async (t) => {
  const fleet = openFleet(t);
  fleet.startAll(['one', 'other']);
  fleet.canAssign = false;
  fleet.accounts = namesOf('user:', 20);
  t.deepEqual([...(await fleet.untilHeld())], [[fleet.lister, 20]]);
});

test.serial('accounts that a worker of another release holds stay with it', async (t) => {
  const fleet = openFleet(t);
  const accounts = namesOf('user:', 10);
  await own.redis.mset(Object.fromEntries(accounts.map((account) => [batchLockKey(account), 'before'])));
  fleet.accounts = [...accounts, 'user:new'];
  fleet.start('now');
  t.deepEqual(
    [...(await fleet.untilHeld())],
    [
      ['before', 10],
      ['now', 1],
    ],
  );
  await fleet.listed(5);
  t.is(fleet.assignments.length, 1);
});

test.serial(
  'a scheduler that stops is replaced at the next election, and a dead one when its lock expires',
  async (t) => {
    const fleet = openFleet(t);
    fleet.startAll(['one', 'other']);
    await fleet.listed(1);
    const first = fleet.lister;
    await fleet.stop(first);
    const second = first === 'one' ? 'other' : 'one';
    while (fleet.lister !== second) await sleep(2);
    t.is(await own.redis.get(batchSchedulerLockKey), second);
    await fleet.stop(second);
    await own.redis.set(batchSchedulerLockKey, 'dead', 'PX', 200);
    fleet.start('third');
    while ((fleet.lister as string) !== 'third') await sleep(2);
    t.is(await own.redis.get(batchSchedulerLockKey), 'third');
  },
);

test.serial('a scheduler that lost its lock stops listing', async (t) => {
  const fleet = openFleet(t);
  fleet.start('one');
  await fleet.listed(1);
  await own.redis.set(batchSchedulerLockKey, 'other');
  await sleep(60);
  const before = fleet.listings;
  await sleep(60);
  t.is(fleet.listings, before);
});

const countsOf = (loads: ReadonlyMap<string, number>, shares: ReadonlyMap<string, readonly string[]>) =>
  [...loads].map(([worker, load]) => load + (shares.get(worker)?.length ?? 0));

test('a worker with fewer accounts gets more of them, until it has as many as the others', (t) => {
  const loads = new Map([
    ['none', 0],
    ['two', 2],
    ['nine', 9],
  ]);
  const accounts = ['a', 'b', 'c', 'd', 'e', 'f'];
  const shares = shareAccounts({ accounts, loads, sharedMax: 16, random: () => 0 });
  t.deepEqual(countsOf(loads, shares), [4, 4, 9]);
  t.deepEqual([...shares.values()].flat().sort(), accounts);
});

test('each of several workers with equally many accounts may get the next one', (t) => {
  const loads = new Map(['one', 'other'].map((worker) => [worker, 3]));
  const chosen = new Set<string>();
  while (chosen.size < 2)
    for (const worker of shareAccounts({ accounts: ['a'], loads, sharedMax: 1, random: Math.random }).keys())
      chosen.add(worker);
  t.is(chosen.size, 2);
});

test('each account is assigned once, evenly, and no worker gets more than the maximum', (t) => {
  const arbitrary = fc.record({
    accounts: fc.uniqueArray(fc.string(), { maxLength: 60 }),
    loads: fc.uniqueArray(fc.tuple(fc.string(), fc.nat(20)), { maxLength: 6, selector: ([worker]) => worker }),
    sharedMax: fc.nat(12),
  });
  fc.assert(
    fc.property(arbitrary, ({ accounts, loads: given, sharedMax }) => {
      const loads = new Map(given);
      const shares = shareAccounts({ accounts, loads, sharedMax, random: Math.random });
      const shared = [...shares.values()].flat();
      if (new Set(shared).size !== shared.length || !shared.every((account) => accounts.includes(account)))
        return false;
      if (shared.length !== Math.min(accounts.length, sharedMax * loads.size)) return false;
      if ([...shares.values()].some(({ length }) => length > sharedMax)) return false;
      // A worker that got accounts has at most one more than any worker that could have got more.
      const mayHaveMore = [...loads].filter(([worker]) => (shares.get(worker)?.length ?? 0) < sharedMax);
      const lowest = Math.min(...mayHaveMore.map(([worker, load]) => load + (shares.get(worker)?.length ?? 0)));
      return [...shares].every(([worker, { length }]) => (loads.get(worker) ?? 0) + length <= lowest + 1);
    }),
  );
  t.pass();
});

test.serial('accounts arrive unchanged, with any characters in their names', async (t) => {
  const control = controlStreamKey('here');
  await own.redis.xadd(control, '*', 'opened', '1');
  const accounts = ['user:alice', 'user:名前', 'user:a,b"]\n', 'device:0'];
  t.true(await assignAccounts(own.redis, 'here', accounts));
  const entries = await own.redis.xrange(control, '-', '+');
  const arrived = entries.flatMap(([, [name = '', value = '']]) => decodeAssignment({ [name]: value }));
  t.deepEqual(arrived, accounts);
});

test.serial('an assignment to a worker that is gone fails, and leaves nothing in Redis', async (t) => {
  t.false(await assignAccounts(own.redis, 'gone', ['user:alice']));
  t.is(await own.redis.exists(controlStreamKey('gone')), 0);
});

test('no other entry assigns an account', (t) => {
  for (const fields of [{}, { opened: '1' }, { request: 'req_1' }, { drain: '1,2' }, { line: '{"news":"started"}' }])
    t.deepEqual(decodeAssignment(fields), []);
  for (const accounts of ['', '{', '"user:alice"', '[1]', 'null', '{"0":"a"}'])
    t.deepEqual(decodeAssignment({ accounts }), []);
  fc.assert(fc.property(fc.string(), (accounts) => Array.isArray(decodeAssignment({ accounts }))));
});
