import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import type { Ask } from '../../../workers/backends/backend-slots.ts';
import { firstFor } from '../../../workers/backends/prefer-backend.ts';
import { noShare } from '../../../workers/fleet-limits/renew-shares.ts';
import { openSlotsSide as open, waits } from '../../support/slots-side.ts';

/** A key whose first choice is this backend. */
function keyFor(name: string): string {
  const ranked = ['a', 'b'].map((each) => ({ name: each, weight: 1 }));
  const keys = Array.from({ length: 100 }, (_, index) => `key ${index}`);
  return keys.find((key) => firstFor(key, ranked)?.name === name) ?? '';
}

const affinityTo = (name: string) => ({ keys: [keyFor(name)], isFirstTurn: false });

function reserved(slots: ReturnType<typeof open>['slots']) {
  const outcome = slots.reserve('small-chat', 'interactive');
  if (outcome.outcome !== 'reserved') throw new Error(outcome.outcome);
  return outcome.reservation;
}

const callsOf = (slots: ReturnType<typeof open>['slots']) =>
  Object.fromEntries(slots.load().map(({ backend, calls }) => [backend, calls]));

test('a reservation moves to the backend that the keys of its job choose, and its own slot is free again', async (t) => {
  const { slots, asked, preferences } = openWithKeys(t);
  const reservation = reserved(slots);
  t.deepEqual([reservation.backend, callsOf(slots)], ['a', { a: 1, b: 0, cloud: 0 }]);
  const slot = await asked('b', reservation);
  t.is(slot, 'b');
  t.deepEqual(callsOf(slots), { a: 0, b: 1, cloud: 0 });
  t.deepEqual(preferences, [{ choice: { name: 'b', depth: 1 }, missed: undefined }]);
  t.is(reservation.use('user:a'), undefined, 'it is used up');
  t.is(await asked('a', reserved(slots)), 'a');
  t.deepEqual(callsOf(slots), { a: 1, b: 1, cloud: 0 });
});

test('a slot that the keys choose goes to no waiting job while the reservation moves', async (t) => {
  const { slots, take, asked } = openWithKeys(t, { requestsAtOnce: 1 });
  const reservation = reserved(slots);
  const waiting = take({ model: 'only-a', ...waits });
  t.is(await asked('b', reservation), 'b');
  t.is((await waiting).name, 'a', 'the job that waits gets the slot that the reservation leaves');
});

test('a job whose choice has no room here waits for a slot of it, and the shares are renewed at once', async (t) => {
  const two = { calls: 2, batchCalls: 2 };
  const { slots, take, asked, missed, preferences } = openWithKeys(t, { requestsAtOnce: 8, shareOf: () => two });
  const [held] = [await take({ tried: new Set(['a', 'cloud']) }), await take({ tried: new Set(['a', 'cloud']) })];
  const asking = asked('b', reserved(slots), { promptTokens: 100_000 });
  await settled();
  t.deepEqual([missed, preferences], [['b'], []]);
  t.is(slots.uses(false).find(({ backend }) => backend === 'b')?.need, 'idle', 'the others need not give theirs up');
  held.end({ outcome: 'answered' });
  t.is(await asking, 'b');
  const first = { affinity: { ...affinityTo('b'), isFirstTurn: true } };
  t.is(await asked('b', reserved(slots), { promptTokens: 100_000, ...first }), 'a', 'a first turn is kept nowhere');
  preferences.pop();
  t.is(await asked('b', reserved(slots)), 'a', 'a short prompt is not waited for');
  t.deepEqual(preferences, [
    { choice: { name: 'b', depth: 1 }, missed: undefined },
    { choice: undefined, missed: { name: 'b', reason: 'room' } },
  ]);
});

test('no job waits for its choice if most slots of the fleet are in use, or if the choice has too many calls', async (t) => {
  for (const [elsewhere, reason] of [
    [{ a: 5, b: 6 }, 'room'],
    [{ a: 0, b: 7 }, 'load'],
  ] as const) {
    const others: Record<string, number> = { cloud: 8, ...elsewhere };
    const { slots, take, asked, missed, preferences } = openWithKeys(t, {
      requestsAtOnce: 8,
      shareOf: () => ({ calls: 1, batchCalls: 1 }),
      callsElsewhere: (name) => others[name] ?? 0,
    });
    await take({ tried: new Set(['a', 'cloud']) });
    t.is(await asked('b', reserved(slots), { promptTokens: 100_000 }), 'a');
    t.is(preferences.at(-1)?.missed?.reason, reason);
    t.deepEqual(missed, []);
  }
});

/** Shares that are being renewed while `clamped`: until Redis has answered, no more calls may begin. */
function openRenewing(t: Parameters<typeof open>[0]) {
  const four = { calls: 4, batchCalls: 4 };
  const state = { clamped: false };
  const isClamped = (name: string) => state.clamped && name !== 'cloud';
  const side = openWithKeys(t, {
    requestsAtOnce: 4,
    shareOf: (name) => (isClamped(name) ? noShare : four),
    renewingShareOf: (name) => (isClamped(name) ? four : undefined),
  });
  const end = () => {
    state.clamped = false;
    side.slots.sharesChanged();
  };
  return { ...side, begin: () => Object.assign(state, { clamped: true }), end };
}

test('while its share is renewed, a job waits for its choice, however short its prompt is', async (t) => {
  const { slots, asked, preferences, begin, end } = openRenewing(t);
  const reservation = reserved(slots);
  begin();
  const asking = asked('b', reservation, { promptTokens: 10 });
  await settled();
  t.deepEqual(preferences, []);
  end();
  t.is(await asking, 'b');
  t.deepEqual(preferences, [{ choice: { name: 'b', depth: 1 }, missed: undefined }]);
});

test('a job that is stopped while it waits for its choice gives its reservation back at once', async (t) => {
  const { slots, begin, asked } = openRenewing(t);
  const reservation = reserved(slots);
  begin();
  const leaving = new AbortController();
  const asking = asked('b', reservation, { promptTokens: 100_000, signal: leaving.signal });
  await settled();
  t.is(callsOf(slots).a, 1);
  leaving.abort();
  t.is(await asking, undefined);
  t.deepEqual(callsOf(slots), { a: 0, b: 0, cloud: 0 });
});

test('a request that fails over does not wait: its reservation is used up', async (t) => {
  const { slots, asked, begin, preferences } = openRenewing(t);
  const reservation = reserved(slots);
  t.is(await asked('a', reservation), 'a');
  begin();
  const asking = asked('b', reservation, { promptTokens: 100_000, tried: new Set(['a']), waitMs: 0 });
  t.is(await asking, 'cloud');
  t.is(preferences.length, 1, 'it is counted once');
});

test('with a limit of each worker, a request waits for its own calls there, and asks for no share', async (t) => {
  const { slots, take, asked, missed } = openWithKeys(t, {
    requestsAtOnce: 2,
    perWorker: true,
    shareOf: (_name, unknown) => unknown,
  });
  const held = await take({ tried: new Set(['a', 'cloud']) });
  await take({ tried: new Set(['a', 'cloud']) });
  const asking = asked('b', reserved(slots), { promptTokens: 100_000 });
  await settled();
  held.end({ outcome: 'answered' });
  t.is(await asking, 'b');
  t.deepEqual(missed, []);
});

test('a job waits for its choice no longer than it may wait at all, and stays where it is', async (t) => {
  const { asked, slots, begin, preferences } = openRenewing(t);
  const reservation = reserved(slots);
  begin();
  t.is(await asked('b', reservation, { promptTokens: 100_000, waitMs: 1 }), 'a');
  t.is(preferences.at(-1)?.missed?.reason, 'renewal');
});

test('a worker says of which backends requests may need one and no other: replicas of a model with keys', (t) => {
  const { slots, replace } = open(t);
  const preferred = () => slots.uses(false).flatMap(({ backend, isPreferred }) => (isPreferred ? [backend] : []));
  t.deepEqual(preferred(), ['a', 'b']);
  replace({}, ({ models }) => {
    for (const model of Object.values(models)) Object.assign(model, { affinity: 'none' });
  });
  t.deepEqual(preferred(), []);
});

test('a worker without a call and without a share there waits for one renewal, and no longer', async (t) => {
  const { slots, asked, missed } = openWithKeys(t, {
    requestsAtOnce: 8,
    shareOf: (name) => (name === 'b' ? noShare : { calls: 8, batchCalls: 8 }),
  });
  const asking = asked('b', reserved(slots), { promptTokens: 100_000 });
  await settled();
  t.deepEqual(missed, ['b']);
  slots.sharesChanged();
  t.is(await asking, 'a');
  t.deepEqual(missed, ['b']);
});

test('while the shares of replicas are renewed, no job goes to the cloud or asks for a larger share', async (t) => {
  const { slots, ask, hungry, begin, end } = openRenewing(t);
  begin();
  t.is(slots.reserve('small-chat', 'interactive').outcome, 'full');
  t.deepEqual(hungry, []);
  const waiting = ask(waits);
  const now = await ask();
  t.is(now.outcome === 'slot' && now.slot.name, 'cloud', 'a job that may not wait');
  end();
  const answered = await waiting;
  t.is(answered.outcome === 'slot' && answered.slot.name, 'a');
});

test('calls of other workers count in the load of a backend', async (t) => {
  let elsewhere = 0;
  const { slots, asked } = openWithKeys(t, { callsElsewhere: (backend) => (backend === 'b' ? elsewhere : 0) });
  elsewhere = 7;
  t.is(await asked('b', reserved(slots)), 'b', 'less than 4 above the mean of two');
  elsewhere = 9;
  t.is(await asked('b', reserved(slots)), 'a');
});

test('keys choose among the backends that the request may still ask, also without a reservation', async (t) => {
  const { take } = open(t);
  t.is((await take({ affinity: affinityTo('b') })).name, 'b');
  t.is((await take({ affinity: affinityTo('b'), tried: new Set(['b']) })).name, 'a');
  t.is((await take({ affinity: affinityTo('a'), only: 'cloud' })).name, 'cloud');
});

test('a reservation in the cloud does not move: no backend on-prem has room, or may be called', async (t) => {
  const { slots, take, asked } = openWithKeys(t, { requestsAtOnce: 1 });
  await take();
  await take();
  t.is(await asked('a', reserved(slots)), 'cloud');
});

test('a backend with weight 0 gets no calls from the moment of the change, and calls there continue', async (t) => {
  const { slots, take, ask, replace } = open(t);
  const running = await take();
  t.is(running.name, 'a');
  replace({}, ({ backends: { a } }) => a && Object.assign(a, { weight: 0 }));
  t.is((await take({ affinity: affinityTo('a') })).name, 'b');
  t.is((await take()).name, 'b');
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'refused' });
  t.true(slots.allRefuse('only-a'));
  running.end({ outcome: 'answered' });
  replace({});
  t.is((await take({ affinity: affinityTo('a') })).name, 'a');
});

/** Until what waits has been reached. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await nextTurn();
}

function openWithKeys(t: Parameters<typeof open>[0], given: Parameters<typeof open>[1] = {}) {
  const side = open(t, given);
  return {
    ...side,
    /** The backend of a job with a key for this backend, which has this reservation. */
    async asked(
      name: string,
      reservation: ReturnType<typeof reserved>,
      more: Partial<Ask> = {},
    ): Promise<string | undefined> {
      const signal = new AbortController().signal;
      const common = {
        model: 'small-chat',
        lane: 'interactive' as const,
        holder: 'user:a',
        promptTokensMin: 0,
        waitMs: 600_000,
      };
      const ask = { ...common, tried: new Set<string>(), signal, affinity: affinityTo(name), ...more };
      const taken = await side.slots.take(ask, reservation);
      return taken.outcome === 'slot' ? taken.slot.name : undefined;
    },
  };
}
