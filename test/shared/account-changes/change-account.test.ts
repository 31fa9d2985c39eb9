import test from 'ava';
import { createChangeAccount, markLifeMs } from '../../../shared/account-changes/change-account.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import { ApiError } from '../../../shared/errors.ts';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { changesKey, fillKey, versionKey } from '../../../shared/redis/keys.ts';
import { waitUntilReady } from '../../../shared/redis/wait-for-redis.ts';
import type { Decide } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const id = 'user:alice';
const alice: Account = {
  id,
  plan: 'free',
  suspended: false,
  overageEnabled: false,
  topUpsMade: [],
  version: 3,
  createdAt: new Date(0),
  keys: [],
  changes: [],
};
const suspend = changeSettings({ settings: { suspended: true }, at: new Date(1), by: 'user:operator' });

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test.beforeEach(async () => {
  await own.redis.flushdb();
  await own.redis.set(versionKey(id), 3);
});

type Faults = {
  find?: Error;
  change?: Error;
  duringChange?: () => Promise<unknown>;
  afterChange?: () => Promise<unknown>;
};

/** A store of one account, which records its calls and the state of Redis at each. */
function recordedStore(faults: Faults = {}) {
  const asked: { call: string; marks: number; version: string | null }[] = [];
  let kept: Account | undefined = alice;
  async function note(call: string): Promise<void> {
    const [marks, version] = await Promise.all([own.redis.zcard(changesKey(id)), own.redis.get(versionKey(id))]);
    asked.push({ call, marks, version });
  }
  const store = {
    async findAccount(): Promise<Account | undefined> {
      await note('find');
      if (faults.find !== undefined) throw faults.find;
      return kept;
    },
    async changeAccount<Result>(_: string, decide: Decide<Account, Result>): Promise<Result> {
      await note('change');
      if (faults.change !== undefined) throw faults.change;
      await faults.duringChange?.();
      const { result, next } = decide(kept);
      kept = next ?? kept;
      await faults.afterChange?.();
      return result;
    },
  };
  function become(account: Account | undefined): void {
    kept = account;
  }
  return { store, asked, kept: () => kept, become };
}

const marks = () => own.redis.zcard(changesKey(id));
const away = () => new ApiError('SERVICE_UNAVAILABLE', 'The store is unavailable.');

test.serial('a change is marked before it is made, and the mark is removed after it', async (t) => {
  const { store, asked } = recordedStore({ afterChange: () => own.redis.set(versionKey(id), 3) });
  const changed = await createChangeAccount({ redis: own.redis, store, log: recordedLog().log })(id, suspend);
  t.like(changed, { suspended: true, version: 4 });
  t.deepEqual(asked, [
    { call: 'find', marks: 0, version: '3' },
    { call: 'change', marks: 1, version: null },
  ]);
  t.is(await marks(), 0);
  t.is(await own.redis.get(versionKey(id)), null, 'also a version that was filled meanwhile');
});

test.serial('without a change no mark is set, and no caller is read again', async (t) => {
  const { store, asked, become } = recordedStore();
  const changeAccount = createChangeAccount({ redis: own.redis, store, log: recordedLog().log });
  become({ ...alice, suspended: true });
  t.like(await changeAccount(id, suspend, 3), { suspended: true, version: 3 });
  become(undefined);
  t.is(await changeAccount(id, suspend, 3), undefined);
  t.is(await changeAccount(id, suspend), undefined);
  t.deepEqual(
    asked.map(({ call, marks }) => [call, marks]),
    [
      ['find', 0],
      ['find', 0],
      ['find', 0],
    ],
  );
  t.is(await own.redis.get(versionKey(id)), '3');
});

test.serial(
  'a change that is already made applies, too: it may have become durable after its mark expired',
  async (t) => {
    for (const checkedVersion of [3, undefined]) {
      const { store, asked, become } = recordedStore();
      const changeAccount = createChangeAccount({ redis: own.redis, store, log: recordedLog().log });
      become({ ...alice, suspended: true, version: 4 });
      await own.redis.set(versionKey(id), 3);
      await own.redis.set(fillKey(id), 'of a read that began before');
      t.like(await changeAccount(id, suspend, checkedVersion), { suspended: true, version: 4 });
      t.deepEqual([await own.redis.get(versionKey(id)), await own.redis.get(fillKey(id))], [null, null]);
      t.is(asked.length, 1, 'it is not written again');
    }
  },
);

test.serial(
  'a change that another request made first has no effect, returns that result, and leaves no mark',
  async (t) => {
    const recorded = recordedStore();
    const store: typeof recorded.store = {
      ...recorded.store,
      async changeAccount(account, decide) {
        recorded.become({ ...alice, suspended: true, version: 4 });
        return recorded.store.changeAccount(account, decide);
      },
    };
    const changed = await createChangeAccount({ redis: own.redis, store, log: recordedLog().log })(id, suspend);
    t.like(changed, { suspended: true, version: 4 });
    t.is(await marks(), 0);
  },
);

test.serial('a change that cannot be marked is not made, and is SERVICE_UNAVAILABLE', async (t) => {
  const redis = connectForRequests('redis://127.0.0.1:1', recordedLog().log);
  t.teardown(() => redis.disconnect());
  const { store, asked, kept } = recordedStore();
  const changeAccount = createChangeAccount({ redis, store, log: recordedLog().log });
  const error = await t.throwsAsync(changeAccount(id, suspend), { instanceOf: ApiError });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
  t.deepEqual(
    asked.map(({ call }) => call),
    ['find'],
  );
  t.is(kept(), alice);
});

test.serial('if the store cannot be read no mark is set, and the failure is passed on', async (t) => {
  const { store, asked } = recordedStore({ find: away() });
  const changeAccount = createChangeAccount({ redis: own.redis, store, log: recordedLog().log });
  const error = await t.throwsAsync(changeAccount(id, suspend), { instanceOf: ApiError });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
  t.is(asked.length, 1);
  t.is(await marks(), 0);
  t.is(await own.redis.get(versionKey(id)), '3');
});

test.serial('if it is unknown whether the store has the change, the mark stays until it expires', async (t) => {
  const { store } = recordedStore({ change: away() });
  const changeAccount = createChangeAccount({ redis: own.redis, store, log: recordedLog().log });
  const error = await t.throwsAsync(changeAccount(id, suspend), { instanceOf: ApiError });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
  t.is(await marks(), 1);
  t.true((await own.redis.pttl(changesKey(id))) > 0);
  t.is(await own.redis.get(versionKey(id)), null);
});

test.serial('a process that was suspended until its mark is too old changes nothing, and reports it', async (t) => {
  let now = 0;
  const { store, kept } = recordedStore({
    duringChange: async () => {
      now += markLifeMs;
    },
  });
  const changeAccount = createChangeAccount({ redis: own.redis, store, log: recordedLog().log, now: () => now });
  const error = await t.throwsAsync(changeAccount(id, suspend), { instanceOf: ApiError });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
  t.is(kept(), alice);
  t.is(await marks(), 1);
  now = 0;
  const slow = recordedStore({
    duringChange: async () => {
      now += markLifeMs / 2;
    },
  });
  const inTime = createChangeAccount({ redis: own.redis, store: slow.store, log: recordedLog().log, now: () => now });
  t.like(await inTime(id, suspend), { version: 4 }, 'a slow change is made');
});

test.serial('a change whose mark cannot be removed is made, succeeds, and is logged', async (t) => {
  const redis = connectForRequests(own.url, recordedLog().log);
  t.teardown(() => redis.disconnect());
  const { log, lines } = recordedLog();
  const { store, kept } = recordedStore({ afterChange: async () => redis.disconnect() });
  await waitUntilReady(redis, AbortSignal.timeout(30_000));
  const changed = await createChangeAccount({ redis, store, log })(id, suspend);
  t.like(changed, { suspended: true, version: 4 });
  t.is(kept()?.version, 4);
  t.is(await marks(), 1);
  t.deepEqual(
    lines.map(({ level, message }) => [level, message]),
    [['warn', 'the mark of a change could not be removed; it will expire']],
  );
});

/** A point at which a change stops until the test continues it. */
function gate() {
  const [reached, open] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const pass = () => {
    reached.resolve();
    return open.promise;
  };
  return { reached: reached.promise, open: open.resolve, pass };
}

test.serial('two concurrent changes have a mark each: the first to end keeps the other mark', async (t) => {
  const gates = [gate(), gate()] as const;
  const changes = gates.map(({ pass }) => {
    const { store } = recordedStore({ duringChange: pass });
    return createChangeAccount({ redis: own.redis, store, log: recordedLog().log })(id, suspend);
  });
  for (const { reached } of gates) await reached;
  t.is(await marks(), 2);
  for (const [index, { open }] of gates.entries()) {
    open();
    await changes[index];
    t.is(await marks(), 1 - index);
  }
});
