import test from 'ava';
import { createLargeBodies } from '../../../ingress/listener/body-budget.ts';
import { ApiError } from '../../../shared/errors.ts';
import { fakeClock } from '../../support/fake-clock.ts';

const never = new AbortController().signal;

/** Two bodies of 1,000 bytes at once, and of one sender 1,000 bytes a second. */
function start() {
  const clock = fakeClock();
  const large = createLargeBodies({ bytesAtOnceMax: 2_000, bytesPerSecond: 1_000, clock });
  const seen: string[] = [];
  const leaving = new Map<string, () => void>();
  return {
    ...{ clock, large, seen },
    leave: (name: string) => leaving.get(name)?.(),
    async arrive(name: string, bytes = 1_000, signal = never): Promise<void> {
      leaving.set(name, await large.place(bytes, signal));
      seen.push(name);
    },
    async come(sender: string, bytes = 1_000, signal = never): Promise<void> {
      await large.time(sender, bytes, signal);
      seen.push(`${sender} ${clock.now()}`);
    },
  };
}

test('bodies begin in the order in which they arrived, as many as fit at once, and one of any size alone', async (t) => {
  const { clock, seen, arrive, leave } = start();
  for (const name of ['a', 'b', 'c', 'd']) void arrive(name);
  void arrive('large', 5_000);
  void arrive('e');
  await clock.advance(0);
  t.deepEqual(seen, ['a', 'b']);
  leave('b');
  leave('b');
  await clock.advance(0);
  t.deepEqual(seen.slice(2), ['c'], 'leaving twice makes room once');
  leave('a');
  leave('c');
  await clock.advance(0);
  t.deepEqual(seen.slice(3), ['d'], 'a larger one waits, and the next behind it');
  leave('d');
  await clock.advance(0);
  t.deepEqual(seen.slice(4), ['large']);
  leave('large');
  await clock.advance(0);
  t.deepEqual(seen.slice(5), ['e']);
});

test('the next body of a sender waits in proportion to the bytes of the last, and others do not wait for it', async (t) => {
  const { clock, seen, come } = start();
  void come('ann', 500);
  void come('ann', 2_000);
  void come('ann');
  void come('ben');
  await clock.advance(499);
  t.deepEqual(seen, ['ann 0', 'ben 0']);
  await clock.advance(1);
  t.deepEqual(seen.slice(2), ['ann 500']);
  await clock.advance(2_000);
  t.deepEqual(seen.slice(3), ['ann 2500']);
  await clock.advance(10_000);
  await come('ann');
  t.is(seen.at(-1), 'ann 12500', 'time that has passed does not count');
});

test('a body whose time does not come within 30 s is refused then, and takes no time of others', async (t) => {
  const { clock, come } = start();
  void come('ann', 30_000);
  void come('ann', 5_000);
  const refused = [1, 2].map(() => t.throwsAsync(come('ann'), { instanceOf: ApiError }));
  await clock.advance(30_000);
  for (const error of await Promise.all(refused)) t.like(error, { code: 'SERVICE_UNAVAILABLE', retryAfterMs: 5_000 });
  const waits = come('ann');
  await clock.advance(5_000);
  await t.notThrowsAsync(waits);
});

test('time counts for the bytes that arrived: none for a body that did not come, or whose client left', async (t) => {
  const { clock, large, seen, come } = start();
  const settle = await large.time('ann', 10_000, never);
  settle(0);
  await come('ann');
  const left = new AbortController();
  const waiting = come('ann', 20_000, left.signal);
  const reason = new Error('the client left');
  left.abort(reason);
  t.is(await t.throwsAsync(waiting), reason);
  void come('ann');
  await clock.advance(1_000);
  t.deepEqual(seen, ['ann 0', 'ann 1000']);
});

test('a body of unknown length is refused before the time of its sender, takes none then, and counts with what arrives', async (t) => {
  const { clock, large, seen, come } = start();
  const settle = large.timeNow('ann', 1_000);
  const early = t.throws(() => large.timeNow('ann', 1_000), { instanceOf: ApiError });
  t.like(early, { code: 'SERVICE_UNAVAILABLE', retryAfterMs: 1_000 });
  large.timeNow('ben', 1_000);
  settle(3_000);
  void come('ann');
  await clock.advance(2_999);
  t.deepEqual(seen, []);
  await clock.advance(1);
  t.deepEqual(seen, ['ann 3000']);
  await clock.advance(1_000);
  large.timeNow('ann', 1_000);
});

test('a body that may not be parsed within 30 s is refused then, and takes no place', async (t) => {
  const { clock, seen, arrive, leave } = start();
  await arrive('a', 2_000);
  const refused = t.throwsAsync(arrive('b'), { instanceOf: ApiError });
  await clock.advance(30_000);
  t.like(await refused, { code: 'SERVICE_UNAVAILABLE' });
  leave('a');
  await arrive('c', 2_000);
  t.deepEqual(seen, ['a', 'c']);
  t.is(clock.pending(), 0);
});

test('what has passed of the time of a body is not given back', async (t) => {
  const { clock, large, seen, come } = start();
  const settle = await large.time('ann', 10_000, never);
  void large.time('ann', 10_000, never);
  await clock.advance(11_000);
  settle(0);
  void come('ann');
  await clock.advance(8_999);
  t.deepEqual(seen, []);
  await clock.advance(1);
  t.deepEqual(seen, ['ann 20000']);
});

test('both waits end with the reason of the signal, and leave nothing behind', async (t) => {
  const { clock, seen, come, arrive, leave } = start();
  const stopping = new AbortController();
  await come('ann');
  await arrive('a', 2_000);
  const waits = [come('ann', 1_000, stopping.signal), arrive('b', 2_000, stopping.signal)];
  const reason = new Error('shutting down');
  stopping.abort(reason);
  for (const wait of waits) t.is(await t.throwsAsync(wait), reason);
  t.is(await t.throwsAsync(come('ben', 1, stopping.signal)), reason);
  leave('a');
  await arrive('c', 2_000);
  await clock.advance(5_000);
  t.deepEqual(seen, ['ann 0', 'a', 'c']);
});
