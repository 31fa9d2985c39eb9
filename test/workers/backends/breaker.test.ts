import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { type Breaker, type BreakerState, createBreaker, createLook } from '../../../workers/backends/breaker.ts';

const resetMs = 20;

function open(t: ExecutionContext, given: { resetMs?: number; probeMs?: () => number; random?: () => number } = {}) {
  const changes: BreakerState[] = [];
  const watchers = new Set<() => void>();
  const onChange = (state: BreakerState) => {
    changes.push(state);
    for (const look of watchers) look();
  };
  const breaker = createBreaker({ onChange, random: () => 0.5, resetMs: 600_000, probeMs: () => 600_000, ...given });
  const awake = setInterval(() => {}, 1_000); // the breaker's own timers keep no process alive
  t.teardown(() => {
    clearInterval(awake);
    breaker[Symbol.dispose]();
  });
  const reaches = (state: BreakerState) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (breaker.state() === state) resolve();
      };
      watchers.add(look);
      look();
    });
  return { breaker, changes, reaches };
}

/** A call of opossum has its effect in the same turn of the event loop, but not synchronously. */
async function settle(act: () => void): Promise<void> {
  act();
  await nextTurn();
}

const succeed = (breaker: Breaker) => settle(() => breaker.watch().succeeded());
const fail = (breaker: Breaker) => settle(() => breaker.watch().failed());

async function failUntilOpen(breaker: Breaker): Promise<void> {
  for (let failures = 0; failures < 5; failures++) await fail(breaker);
}

test('five failures in a row open it, after any earlier outcomes', async (t) => {
  const { breaker, changes } = open(t);
  for (let calls = 0; calls < 200; calls++) await succeed(breaker);
  for (let failures = 0; failures < 4; failures++) await fail(breaker);
  t.is(breaker.state(), 'closed');
  await fail(breaker);
  t.is(breaker.state(), 'open');
  t.deepEqual(changes, ['open']);
});

test('an answer in between restarts the count', async (t) => {
  const { breaker } = open(t);
  for (let calls = 0; calls < 100; calls++) await succeed(breaker);
  for (let row = 0; row < 3; row++) {
    for (let failures = 0; failures < 4; failures++) await fail(breaker);
    await succeed(breaker);
  }
  t.is(breaker.state(), 'closed');
});

test('slow failures open it like fast ones: calls in flight do not hide them', async (t) => {
  const { breaker } = open(t);
  const inFlight = Array.from({ length: 64 }, () => breaker.watch());
  for (const call of inFlight.slice(0, 5)) await settle(() => call.failed());
  t.is(breaker.state(), 'open');
});

test('more than two failures of five calls open it, in any order', async (t) => {
  const { breaker } = open(t);
  for (let round = 0; round < 2; round++) {
    await fail(breaker);
    await succeed(breaker);
  }
  t.is(breaker.state(), 'closed');
  await fail(breaker);
  t.is(breaker.state(), 'open');
});

test('streams that always break off after their first token open it', async (t) => {
  const { breaker } = open(t);
  const streams = Array.from({ length: 8 }, () => breaker.watch());
  for (const stream of streams) await settle(() => stream.succeeded());
  for (const stream of streams) await settle(() => stream.failed());
  t.is(breaker.state(), 'open');
});

test('one failure of five does not open it, nor do clients that leave', async (t) => {
  const { breaker } = open(t);
  for (let round = 0; round < 20; round++) {
    for (let calls = 0; calls < 4; calls++) await succeed(breaker);
    await fail(breaker);
    for (let calls = 0; calls < 10; calls++) await settle(() => breaker.watch().abandoned());
  }
  t.is(breaker.state(), 'closed');
});

test('after a while it lets one call through, and closes when that is answered', async (t) => {
  const { breaker, changes, reaches } = open(t, { resetMs });
  await failUntilOpen(breaker);
  t.is(breaker.state(), 'open');
  await reaches('half-open');
  const probe = breaker.watch();
  t.is(breaker.state(), 'probing');
  await settle(() => probe.succeeded());
  t.is(breaker.state(), 'closed');
  t.deepEqual(changes, ['open', 'half-open', 'closed']);
});

for (const end of ['failed', 'abandoned'] as const) {
  test(`a probe that is ${end} opens it again, and another follows`, async (t) => {
    const { breaker, reaches } = open(t, { resetMs });
    await failUntilOpen(breaker);
    for (let probes = 0; probes < 3; probes++) {
      await reaches('half-open');
      const probe = breaker.watch();
      await settle(() => probe[end]());
      t.is(breaker.state(), 'open');
    }
    await reaches('half-open');
    await succeed(breaker);
    t.is(breaker.state(), 'closed');
  });
}

test('breakers that open together probe up to a fifth earlier or later than the pause', async (t) => {
  const pauseMs = 300;
  const breakers = [0, 1].map((chance) => open(t, { resetMs: pauseMs, random: () => chance }));
  const openedAt = performance.now();
  await Promise.all(breakers.map(({ breaker }) => failUntilOpen(breaker)));
  const order: { chance: number; afterMs: number }[] = [];
  await Promise.all(
    breakers.map(async ({ reaches }, chance) => {
      await reaches('half-open');
      order.push({ chance, afterMs: performance.now() - openedAt });
    }),
  );
  const [soonest, latest] = order;
  t.like([soonest, latest], [{ chance: 0 }, { chance: 1 }]);
  t.true((soonest?.afterMs ?? 0) >= 0.8 * pauseMs - 1);
  t.true((latest?.afterMs ?? 0) >= 1.2 * pauseMs - 1);
});

test('a call from before it opened has no effect afterwards, neither by a late answer nor by a late failure', async (t) => {
  const { breaker, reaches } = open(t, { resetMs });
  const [early, another] = [breaker.watch(), breaker.watch()];
  const old = Array.from({ length: 5 }, () => breaker.watch());
  await failUntilOpen(breaker);
  await settle(() => early.succeeded());
  t.is(breaker.state(), 'open');
  await reaches('half-open');
  await settle(() => another.succeeded());
  t.is(breaker.state(), 'half-open');
  const probe = breaker.watch();
  await settle(() => early.failed());
  t.is(breaker.state(), 'probing');
  await settle(() => probe.succeeded());
  t.is(breaker.state(), 'closed');
  for (let calls = 0; calls < 5; calls++) await settle(() => old[calls]?.failed());
  t.is(breaker.state(), 'closed', 'also not once it is closed again');
});

test('after closing it forgets earlier outcomes: as many failures are needed to open it again', async (t) => {
  const { breaker, reaches } = open(t, { resetMs });
  await failUntilOpen(breaker);
  await reaches('half-open');
  const probe = breaker.watch();
  await settle(() => probe.succeeded());
  await settle(() => probe.failed());
  t.is(breaker.state(), 'closed', 'its stream broke off, which is one failure');
  for (let failures = 1; failures < 4; failures++) await fail(breaker);
  t.is(breaker.state(), 'closed');
  await fail(breaker);
  t.is(breaker.state(), 'open');
});

test('an abandoned probe has no effect on the next one', async (t) => {
  const { breaker, reaches } = open(t, { resetMs: 50, probeMs: () => 1_000 });
  await failUntilOpen(breaker);
  await reaches('half-open');
  const givenUp = breaker.watch();
  await reaches('open');
  await reaches('half-open');
  const probe = breaker.watch();
  for (const word of ['failed', 'abandoned'] as const) {
    await settle(() => givenUp[word]());
    t.is(breaker.state(), 'probing');
  }
  await settle(() => probe.succeeded());
  t.is(breaker.state(), 'closed');
});

test('a probe without an answer in time has failed; if it answers later, that counts', async (t) => {
  const { breaker, reaches } = open(t, { resetMs: 50, probeMs: () => 1_000 });
  await failUntilOpen(breaker);
  await reaches('half-open');
  const slow = breaker.watch();
  await reaches('open');
  await settle(() => slow.succeeded());
  t.is(breaker.state(), 'closed');
  await settle(() => slow.failed());
  t.is(breaker.state(), 'closed');
});

test('an open breaker that is half-opened early lets the probe through at once, and opens or closes with it', async (t) => {
  const { breaker, changes } = open(t);
  breaker.halfOpen();
  t.is(breaker.state(), 'closed', 'it is not open');
  for (const proves of [false, true]) {
    if (breaker.state() === 'closed') await failUntilOpen(breaker);
    breaker.halfOpen();
    breaker.halfOpen();
    t.is(breaker.state(), 'half-open');
    const probe = breaker.watch();
    t.is(breaker.state(), 'probing');
    await settle(() => (proves ? probe.succeeded() : probe.failed()));
    t.is(breaker.state(), proves ? 'closed' : 'open');
  }
  t.deepEqual(changes, ['open', 'half-open', 'open', 'half-open', 'closed']);
  await failUntilOpen(breaker);
  t.is(breaker.state(), 'open', 'it opens as before');
});

test('its time comes while the probe is in flight: there is no second one', async (t) => {
  const { breaker, changes } = open(t, { resetMs });
  await failUntilOpen(breaker);
  breaker.halfOpen();
  const probe = breaker.watch();
  await sleep(3 * resetMs);
  t.is(breaker.state(), 'probing');
  await settle(() => probe.failed());
  t.deepEqual(changes, ['open', 'half-open', 'open']);
});

function openLook(t: ExecutionContext) {
  const awake = setInterval(() => {}, 1_000); // its own timer keeps no process alive
  t.teardown(() => clearInterval(awake));
  const side = { state: 'open' as BreakerState, time: 0, tests: 0, ends: 0, isWell: async () => false };
  const look = createLook({
    breaker: {
      state: () => side.state,
      halfOpen() {
        side.state = 'half-open';
      },
    },
    test() {
      side.tests++;
      return side.isWell();
    },
    onEnd: () => side.ends++,
    now: () => side.time,
  });
  async function begin(): Promise<void> {
    look.begin();
    await nextTurn();
    side.time += 100;
  }
  return { side, look, begin };
}

test('a backend that could not be reached is tested at most ten times a second, and may be called once it is well', async (t) => {
  const { side, look, begin } = openLook(t);
  look.noteFailure('backend', side.time);
  look.begin();
  t.true(look.isTesting(), 'requests wait for it');
  look.begin();
  await nextTurn();
  t.false(look.isTesting());
  look.begin();
  t.deepEqual([side.tests, side.ends, side.state], [1, 1, 'open']);
  side.time += 100;
  await begin();
  t.is(side.tests, 2);
  side.isWell = async () => true;
  await begin();
  t.deepEqual([side.tests, side.ends, side.state], [3, 3, 'half-open']);
});

test('it is not tested while it may be called, nor if it could be reached', async (t) => {
  const { side, look, begin } = openLook(t);
  await begin();
  for (const evidence of ['request', 'silence', 'operator'] as const) {
    look.noteFailure('backend', side.time);
    look.noteFailure(evidence, side.time);
    await begin();
  }
  look.noteFailure('backend', side.time);
  for (const state of ['closed', 'half-open', 'probing'] as const) {
    side.state = state;
    await begin();
  }
  t.is(side.tests, 0);
});

test('it is tested after a failed test, and also if a call that had begun before breaks off after the backend was lost', async (t) => {
  const { side, look, begin } = openLook(t);
  look.noteFailure('request', side.time);
  look.noteFailedTest();
  await begin();
  t.is(side.tests, 1);
  look.noteFailure('request', side.time - 150);
  await begin();
  t.is(side.tests, 2);
  look.noteFailure('request', side.time);
  await begin();
  t.is(side.tests, 2, 'a call has reached it since');
});

test('one that says that it is well and fails is not believed again until a call has succeeded or a test has failed', async (t) => {
  const { side, look, begin } = openLook(t);
  side.isWell = async () => true;
  async function halfOpens(): Promise<boolean> {
    look.noteFailure('backend', side.time);
    side.state = 'open';
    await begin();
    return side.state !== 'open';
  }
  t.deepEqual([await halfOpens(), await halfOpens(), await halfOpens()], [true, false, false]);
  side.state = 'closed';
  await begin();
  t.deepEqual([await halfOpens(), await halfOpens()], [true, false]);
  side.isWell = async () => false;
  t.false(await halfOpens());
  side.isWell = async () => true;
  t.deepEqual([await halfOpens(), await halfOpens()], [true, false], 'it was away in between');
  look.noteFailedTest();
  t.deepEqual([await halfOpens(), await halfOpens()], [true, false], 'a test after a failed call says so, too');
});

test('requests do not wait for one that does not answer its test', async (t) => {
  const { side, look } = openLook(t);
  const answers: ((isWell: boolean) => void)[] = [];
  side.isWell = () => new Promise((resolve) => answers.push(resolve));
  look.noteFailure('backend', side.time);
  look.begin();
  while (look.isTesting()) await nextTurn();
  t.deepEqual([side.ends, side.state], [1, 'open']);
  answers[0]?.(true);
  await nextTurn();
  t.is(side.state, 'open');
  side.isWell = async () => true;
  side.time += 100;
  look.begin();
  await nextTurn();
  t.is(side.state, 'half-open', 'it is tested again');
  side.state = 'open';
  side.isWell = () => new Promise(() => {});
  side.time += 100;
  look.begin();
  while (look.isTesting()) await nextTurn();
  side.isWell = async () => true;
  side.time += 100;
  look.begin();
  await nextTurn();
  t.is(side.state, 'open', 'a late result does not show that it was away');
});
