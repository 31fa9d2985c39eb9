import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import type { Redis } from '../../../shared/redis/connections.ts';
import { type BackendUse, noShare } from '../../../workers/fleet-limits/renew-shares.ts';
import { startShares } from '../../../workers/fleet-limits/start-shares.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { notBusy } from '../../support/shares-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

const script = 'svc:renew-shares';

/** The same Redis, as if it were a cluster. `onCall` is awaited before each renewal of the shares of one backend. */
function asCluster(redis: Redis, onCall: (mode: string) => Promise<void>): Redis {
  return new Proxy(redis, {
    get(target, name) {
      if (name === 'isCluster') return true;
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (name !== script) return value.bind(target);
      return async (...args: string[]) => {
        const mode = args.find((each) => each === 'new' || each === 'known' || each === 'leaves');
        if (args.some((each) => each.includes('{shares:'))) await onCall(mode ?? '');
        return value.apply(target, args);
      };
    },
  });
}

const noNews = { takeNews: () => notBusy, keepNews() {} };

test('in a cluster, the share of a backend that comes back is not ended by giving up the earlier one', async (t) => {
  const use = {
    limit: 4,
    inFlight: 0,
    need: 'wants',
    isAsked: true,
    isOfSeveralPools: false,
    isPreferred: false,
  } as const;
  const modes: string[] = [];
  let uses: BackendUse[] = [{ backend: 'a', ...use }];
  let renewals = 0;
  const renewed = async (times: number) => {
    for (const from = renewals; renewals < from + times; ) await nextTurn();
  };
  const shutdown = new AbortController();
  await using shares = startShares({
    redis: asCluster(given.redis, async (mode) => {
      if (mode !== 'leaves') return void modes.push(mode);
      modes.push('leaves');
      if (uses.length > 0) return; // the test has ended
      uses = [{ backend: 'a', ...use }];
      await renewed(10);
      modes.push('left');
    }),
    ...{ workerId: 'worker', pools: () => ['default'], uses: () => uses, shutdown: shutdown.signal },
    onRenewed: () => void renewals++,
    ...noNews,
    log: recordedLog().log,
    after: (_ms, run) => {
      setImmediate(run);
      return () => {};
    },
  });
  await shares.renewed;
  t.is(shares.shareOf('a', noShare).calls, 4);
  uses = [];
  while (!modes.includes('left')) await nextTurn();
  while (shares.shareOf('a', noShare).calls === 0) await nextTurn();
  const changes = modes.filter((mode) => mode !== 'known');
  t.deepEqual(changes, ['new', 'leaves', 'left', 'new']);
});

test('in a cluster, a backend that has gone has no share, and all are given up at the end', async (t) => {
  const use = {
    limit: 4,
    inFlight: 0,
    need: 'idle',
    isAsked: false,
    isOfSeveralPools: false,
    isPreferred: false,
  } as const;
  const left: string[] = [];
  let uses: BackendUse[] = [
    { backend: 'b', ...use },
    { backend: 'c', ...use },
  ];
  const shares = startShares({
    redis: asCluster(given.redis, async (mode) => void (mode === 'leaves' && left.push(mode))),
    ...{
      workerId: 'another',
      pools: () => ['default'],
      uses: () => uses,
      onRenewed() {},
      ...noNews,
      log: recordedLog().log,
    },
    shutdown: new AbortController().signal,
    after: (_ms, run) => {
      setImmediate(run);
      return () => {};
    },
  });
  await shares.renewed;
  t.deepEqual([shares.areValid('b'), shares.areValid('c'), shares.areValid('d')], [true, true, false]);
  uses = uses.slice(0, 1);
  while (left.length === 0) await nextTurn();
  t.is(shares.shareOf('c', noShare).calls, 0);
  t.false(shares.areValid('c'));
  t.true(shares.areValid('b'));
  await shares[Symbol.asyncDispose]();
  t.is(left.length, 2);
});
