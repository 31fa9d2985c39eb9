import { setImmediate as nothingElse } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Scheduler } from 'fast-check';
import fc from 'fast-check';
import { createCallers } from '../../../ingress/authentication/callers.ts';
import { createCheckCaller } from '../../../ingress/authentication/check-caller.ts';
import { createChangeAccount, markLifeMs } from '../../../shared/account-changes/change-account.ts';
import { createAdmit } from '../../../shared/limits/admit.ts';
import { createAskLimits } from '../../../shared/limits/ask-limits.ts';
import { changesKey, fillKey, versionKey } from '../../../shared/redis/keys.ts';
import type { Decide } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { replaceClock } from '../../support/redis-clock.ts';
import { sized } from '../../support/size.ts';

const oneMs = { queueMs: 1, requestMs: 1 };

/*
 * Ingresses that read and change one account with the real code, on one Redis and a store in memory. Each call of the store waits for its
 * turn before and after it takes effect. Turns are assigned at random, many times.
 */
const account = 'user:alice';
const credential = { account };
const startedAt = 1_900_000_000_000;

let own: RedisDatabase;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await openRedisDatabase();
  setTime = replaceClock(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());

/** Where a writer dies: its process ends there, or its last write reaches the store after that. */
type Death = 'lives' | 'before the mark' | 'before the store' | 'on its way to the store' | 'before the unmark';
type Plan = { requests: number[]; changes: Death[][]; clockSteps: number[]; forgets: number; slowness: Slowness };
/** Number of other turns that a call of the store may wait for, before and after it takes effect. */
type Slowness = { reading: number; writing: number };

const death = fc.constantFrom<Death[]>(
  'lives',
  'lives',
  'before the mark',
  'before the store',
  'on its way to the store',
  'before the unmark',
);
const plans: fc.Arbitrary<Plan> = fc.record({
  requests: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
  changes: fc.array(fc.array(death, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 }),
  clockSteps: fc.array(fc.constantFrom(1, markLifeMs / 2, markLifeMs, 2 * markLifeMs), { minLength: 1, maxLength: 5 }),
  forgets: fc.nat(2),
  slowness: fc.record({ reading: fc.nat(12), writing: fc.nat(8) }),
});

/** The changes that must apply: all that the store has, or all that were confirmed. */
type Felt = 'stored' | 'answered';

const prove = (t: ExecutionContext, felt: Felt) =>
  fc.assert(
    fc.asyncProperty(fc.scheduler(), plans, (turns, plan) => proveRace(t, { turns, plan, felt })),
    { numRuns: sized(40, 120) },
  );

test.serial('wherever a process dies, after a change in the store no request and no version has the old state', (t) =>
  prove(t, 'stored'),
);

test.serial(
  'even if marks expire too early, by a wrong clock or a slow store, this holds after a change was confirmed',
  (t) => prove(t, 'answered'),
);

async function proveRace(t: ExecutionContext, { turns, plan, felt }: Race): Promise<void> {
  await own.redis.del(versionKey(account), fillKey(account), changesKey(account));
  const world = await createWorld(t, { turns, plan, felt });
  const ingresses = [createIngress(world), createIngress(world)] as const;
  const acts = [
    ...plan.requests.map((count, index) => repeat(count, () => ingresses[index % 2 === 0 ? 0 : 1](t))),
    ...plan.changes.map((deaths) => change(world, deaths)),
    forEachTurn(world, plan.clockSteps, world.advance),
    forEachTurn(world, Array(plan.forgets).fill(0), () => own.redis.del(versionKey(account), fillKey(account))),
  ];
  await turns.waitFor(Promise.all(acts));
  if (felt === 'answered') return;

  // The marks of dead writers expire; then callers are cached again from the second request on.
  await turns.waitFor(world.settled());
  await world.advance(markLifeMs);
  for (const request of ingresses) t.is(await turns.waitFor(request(t)), world.version());
  t.is(await own.redis.get(versionKey(account)), String(world.version()));
  const before = world.readings();
  for (const request of ingresses) t.is(await turns.waitFor(request(t)), world.version());
  t.is(world.readings(), before);
}

type Race = { turns: Scheduler; plan: Plan; felt: Felt };
type World = Awaited<ReturnType<typeof createWorld>>;

async function createWorld(t: ExecutionContext, { turns, plan: { slowness }, felt }: Race) {
  let kept: Account = {
    id: account,
    plan: 'free',
    suspended: false,
    overageEnabled: false,
    topUpsMade: [],
    version: 1,
    createdAt: new Date(0),
    keys: [],
    changes: [],
  };
  let now = startedAt;
  let answered = 1;
  let readings = 0;
  const writing = new Map<object, { until: number; over: PromiseWithResolvers<void> }>();
  await setTime(now);
  const atLeast = () => (felt === 'stored' ? kept.version : answered);

  /** One participant continues until all wait for a turn again: they share a connection, which answers in order. */
  async function go(on: () => Promise<void>): Promise<void> {
    await on();
    await nothingElse();
    const version = await own.redis.get(versionKey(account));
    await nothingElse();
    t.true(version === null || Number(version) >= atLeast(), `${version} in Redis, but ${atLeast()} must apply`);
    t.true(version === null || Number(version) <= kept.version);
  }
  async function turn(what: string, count = 1): Promise<void> {
    for (let index = 0; index < count; index++) await turns.schedule(Promise.resolve(), what, undefined, go);
  }

  return {
    turn,
    version: () => kept.version,
    /** No caller older than this version may be accepted now. */
    atLeast,
    readings: () => readings,
    settled: () => Promise.all([...writing.values()].map(({ over }) => over.promise)),
    answer(version: number): void {
      answered = Math.max(answered, version);
    },
    async find(): Promise<Account> {
      await turn('the store is asked');
      readings++;
      const found = kept;
      await turn('the store answers', 1 + slowness.reading);
      return found;
    },
    /** A mark lives longer than a call of the store: a correct clock does not pass its expiry while it is needed. */
    async advance(ms: number): Promise<void> {
      const ends = [...writing.values()].map(({ until }) => until);
      now = felt === 'stored' ? Math.min(now + ms, ...ends) : now + ms;
      await setTime(now);
    },
    begin: (writer: object) =>
      writing.set(writer, { until: now + markLifeMs - 1, over: Promise.withResolvers<void>() }),
    end(writer: object): void {
      writing.get(writer)?.over.resolve();
      writing.delete(writer);
    },
    async write<Result>(decide: Decide<Account, Result>): Promise<Result> {
      for (;;) {
        const decidedOn = kept;
        const { result, next } = decide(decidedOn);
        await turn('the store is asked to write', 1 + slowness.writing);
        if (kept !== decidedOn) continue;
        kept = next ?? kept;
        return result;
      }
    },
  };
}

/** An ingress that serves requests; returns the version of the caller of each. */
function createIngress(world: World) {
  const callers = createCallers({
    store: { findAccount: world.find, findKeyOwner: async () => undefined },
    sharedCallers: { get: async () => undefined, put: async () => {} },
    guestSecretsInUse: () => true,
    defaultPlan: () => 'free',
  });
  const admission = createAdmit(own.redis, { timeouts: () => oneMs, outboxLengthMax: 1 });
  const admit: typeof admission = {
    ...admission,
    async look(request) {
      await world.turn('Redis is asked');
      const looked = await admission.look(request);
      await world.turn('Redis answers');
      return looked;
    },
  };
  const seed = () => Promise.reject(new Error('no month is needed'));
  const checkCaller = createCheckCaller({
    admit,
    release: async () => 'released',
    askLimits: createAskLimits({ seed, reread: callers.reread }),
    keyUse: { note: () => {} },
  });
  return async function request(t: ExecutionContext): Promise<number> {
    const atLeast = world.atLeast();
    const caller = await callers.find(credential);
    const checked = await checkCaller.look({
      requestId: `req_${requests++}`,
      address: '192.0.2.1',
      credential,
      caller,
    });
    const { version } = checked.caller;
    t.true(version >= atLeast, `version ${version}, but ${atLeast} must apply`);
    return version;
  };
}

let requests = 0;

/** An ingress that makes these changes in order; another one continues if it dies. */
async function change(world: World, deaths: readonly Death[]): Promise<void> {
  for (const death of deaths) {
    const dead = Promise.withResolvers<void>();
    const dies = (where: Death) => {
      if (death !== where) return;
      dead.resolve();
      return new Promise<never>(() => {});
    };
    const store = {
      async findAccount() {
        const found = await world.find();
        await dies('before the mark');
        world.begin(dead);
        return found;
      },
      async changeAccount<Result>(_: string, decide: Decide<Account, Result>) {
        await world.turn('it was marked');
        if (death === 'before the store') world.end(dead);
        await dies('before the store');
        if (death === 'on its way to the store') dead.resolve();
        const written = await world.write(decide);
        world.end(dead);
        await dies('on its way to the store');
        await world.turn('the store has written');
        await dies('before the unmark');
        return written;
      },
    };
    const changeAccount = createChangeAccount({ redis: own.redis, store, log: recordedLog().log });
    const changed = changeAccount(account, (found) => {
      const next = { ...(found as Account), version: (found?.version ?? 0) + 1 }; // it exists from the start
      return { result: next.version, next };
    });
    await Promise.race([changed.then(world.answer), dead.promise]);
  }
}

async function repeat(count: number, act: () => Promise<unknown> | undefined): Promise<void> {
  for (let index = 0; index < count; index++) await act();
}

async function forEachTurn(world: World, values: readonly number[], act: (value: number) => Promise<unknown>) {
  for (const value of values) {
    await world.turn('in between');
    await act(value);
  }
}
