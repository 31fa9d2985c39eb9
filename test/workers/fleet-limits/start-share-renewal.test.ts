import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import {
  type BackendNews,
  type BackendUse,
  noShare,
  type RenewedShares,
  type RenewShares,
  shareMs,
} from '../../../workers/fleet-limits/renew-shares.ts';
import { startShareRenewal } from '../../../workers/fleet-limits/start-share-renewal.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { notBusy } from '../../support/shares-side.ts';

type Renewal = {
  mode: string;
  number: number;
  pools: readonly string[];
  uses: readonly BackendUse[];
  answer: (calls: number) => void;
  fail: () => void;
};

/** Shares with renewals that the test answers, and a clock that it sets. */
function openSubject() {
  let now = 0;
  let inFlight = 0;
  const renewals: Renewal[] = [];
  let changes = 0;
  const renewShares: RenewShares = (mode, { number, pools, uses }) => {
    const { promise, resolve, reject } = Promise.withResolvers<RenewedShares>();
    const answer = (calls: number) =>
      resolve({
        pools: new Map(pools.map((pool) => [pool, { workers: 2, checksStalled: true }])),
        shares: new Map(uses.map(({ backend }) => [backend, { calls, batchCalls: calls - 1 }])),
        pauses: new Map(),
        callsElsewhere: new Map(),
      });
    renewals.push({ mode, number, pools, uses, answer, fail: () => reject(new Error('Redis is unavailable')) });
    if (mode === 'leaves') answer(0);
    return promise;
  };
  const { log, lines } = recordedLog();
  const shutdown = new AbortController();
  const pauses: { ms: number; end: () => void }[] = [];
  const after = (ms: number, end: () => void) => {
    const pause = { ms, end };
    pauses.push(pause);
    return () => void pauses.splice(pauses.indexOf(pause) >>> 0, 1);
  };
  const news: BackendNews[] = [];
  const shares = startShareRenewal({
    ...{ renewShares, pools: () => ['default'], log, shutdown: shutdown.signal, now: () => now, after },
    uses: () => [
      {
        backend: 'a',
        limit: 10,
        inFlight,
        need: 'wants',
        isAsked: false,
        isOfSeveralPools: false,
        isPreferred: false,
      },
    ],
    takeNews: () => news.splice(0)[0] ?? notBusy,
    keepNews: (_backend, kept) => void news.push(kept),
    onRenewed: () => changes++,
  });
  return {
    ...{ shares, shutdown, lines, renewals, pauses, news },
    changes: () => changes,
    setInFlight: (calls: number) => {
      inFlight = calls;
    },
    pass: (ms: number) => {
      now += ms;
    },
    calls: () => shares.shareOf('a', noShare).calls,
    /** The next renewal, once it is requested. */
    async next(): Promise<Renewal> {
      const count = renewals.length;
      while (renewals.length === count) {
        for (const each of pauses.splice(0)) each.end();
        await settled();
      }
      return renewals[count] as Renewal; // it has just arrived
    },
  };
}

async function settled(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await nextTurn();
}

test.serial(
  'there is no share before the first answer, and none once it has expired, counted from the request',
  async (t) => {
    const subject = openSubject();
    t.is(subject.calls(), 0);
    subject.pass(400);
    subject.renewals[0]?.answer(6);
    await subject.shares.renewed;
    t.is(subject.calls(), 6);
    t.is(subject.shares.shareOf('another', noShare).calls, 0);
    subject.pass(shareMs - 401);
    t.is(subject.calls(), 6);
    t.true(subject.shares.areValid('a'));
    subject.pass(1);
    t.is(subject.calls(), 0);
    t.false(subject.shares.areValid('a'));
    await subject.shares[Symbol.asyncDispose]();
  },
);

test.serial('during a renewal, no more calls may begin than it has reported, or than it is granted', async (t) => {
  const subject = openSubject();
  subject.renewals[0]?.answer(6);
  await settled();
  subject.setInFlight(2);
  const second = await subject.next();
  t.like(second, { mode: 'known', uses: [{ inFlight: 2 }] });
  t.is(subject.calls(), 2);
  t.is(subject.shares.shareOf('a', noShare).batchCalls, 2);
  second.answer(4);
  await settled();
  t.is(subject.calls(), 4);
  subject.setInFlight(7);
  const third = await subject.next();
  t.is(subject.calls(), 4, 'it was not granted more');
  third.answer(4);
  await subject.shares[Symbol.asyncDispose]();
});

test.serial('what a worker has learned is sent once, and again if it did not reach Redis', async (t) => {
  const subject = openSubject();
  subject.renewals[0]?.answer(6);
  await settled();
  const learned = { busyCalls: 3, pause: { kind: 'busy', leftMs: 5_000 } } as const;
  subject.news.push(learned);
  const failing = await subject.next();
  t.like(failing, { number: 2, uses: [learned] });
  failing.fail();
  await settled();
  const sent = await subject.next();
  t.like(sent, { number: 3, uses: [learned] });
  sent.answer(6);
  await settled();
  const last = await subject.next();
  t.like(last, { number: 4, uses: [notBusy] });
  last.answer(6);
  await subject.shares[Symbol.asyncDispose]();
});

test.serial(
  'after a failed renewal no call begins that it has not reported, until one is answered; it is logged once',
  async (t) => {
    const subject = openSubject();
    subject.renewals[0]?.answer(6);
    await settled();
    subject.setInFlight(4);
    for (let failures = 0; failures < 2; failures++) {
      const renewal = await subject.next();
      renewal.fail();
      await settled();
      t.is(subject.calls(), 4, 'a smaller share may have been granted');
      t.is(subject.shares.renewingShareOf('a')?.calls, 6);
    }
    subject.pass(shareMs);
    t.is(subject.calls(), 0);
    t.is(subject.shares.renewingShareOf('a'), undefined);
    t.is(subject.lines.length, 1);
    const renewal = await subject.next();
    t.is(renewal.mode, 'known');
    renewal.answer(5);
    await settled();
    t.is(subject.calls(), 5);
    await subject.shares[Symbol.asyncDispose]();
  },
);

test.serial('it renews twice a second, or earlier on request, at most five times a second', async (t) => {
  const subject = openSubject();
  subject.renewals[0]?.answer(6);
  await settled();
  const pauses = () => subject.pauses.map(({ ms }) => ms);
  const endPause = async (ms: number) => {
    subject.pauses.find((pause) => pause.ms === ms)?.end();
    await settled();
  };
  t.deepEqual(pauses(), [500]);
  await endPause(500);
  t.is(subject.renewals.length, 2);
  subject.shares.renewSoon(['a']);
  subject.pass(150);
  subject.renewals[1]?.answer(6);
  await settled();
  t.deepEqual(pauses(), [200], 'after the end of the renewal in which it was requested');
  await endPause(200);
  t.is(subject.renewals.length, 3);
  subject.renewals[2]?.answer(6);
  await settled();
  subject.pass(150);
  subject.shares.renewSoon(['a']);
  subject.shares.renewSoon(['a']);
  t.deepEqual(pauses(), [500, 50]);
  await endPause(50);
  t.is(subject.renewals.length, 4);
  t.deepEqual(pauses(), []);
  subject.renewals[3]?.answer(6);
  await settled();
  t.is(subject.changes(), 4);
  await subject.shares[Symbol.asyncDispose]();
});

test.serial('for a request that needs a slot which another worker holds, it renews after 20 ms', async (t) => {
  const subject = openSubject();
  subject.renewals[0]?.answer(6);
  await settled();
  subject.shares.renewQuickly(['a']);
  await settled();
  t.is(subject.renewals.length, 1);
  t.deepEqual(
    subject.pauses.map(({ ms }) => ms),
    [500, 20],
  );
  subject.pauses[1]?.end();
  await settled();
  t.is(subject.renewals.length, 2);
  subject.renewals[1]?.answer(6);
  await subject.shares[Symbol.asyncDispose]();
});

test.serial(
  'a worker that is asked to stop leaves its pools, keeps its calls in flight, and gives up its shares at its end',
  async (t) => {
    const subject = openSubject();
    subject.renewals[0]?.answer(6);
    await settled();
    t.deepEqual(subject.shares.membershipOf('default'), { workers: 2, checksStalled: true });
    t.deepEqual(subject.shares.membershipOf('another'), { workers: 0, checksStalled: false });
    subject.setInFlight(3);
    subject.shutdown.abort();
    const renewal = await subject.next();
    t.like(renewal, { pools: [], uses: [{ inFlight: 3 }] });
    renewal.answer(3);
    await settled();
    t.deepEqual(subject.shares.membershipOf('default'), { workers: 0, checksStalled: false });
    await subject.shares[Symbol.asyncDispose]();
    t.is(subject.renewals.at(-1)?.mode, 'leaves');
  },
);
