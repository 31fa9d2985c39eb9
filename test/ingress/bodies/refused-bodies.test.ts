import test from 'ava';
import { createRefusedBodies } from '../../../ingress/bodies/refused-bodies.ts';
import { fakeClock } from '../../support/fake-clock.ts';

function start() {
  const clock = fakeClock();
  const wait = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const refused = createRefusedBodies({ bytesPerSecond: 1_000, pauseMsMax: 5_000, now: clock.now, wait });
  const passed: string[] = [];
  const come = (account: string, bytes: number) =>
    refused.turn(account).then(() => {
      passed.push(`${account} ${clock.now()}`);
      if (bytes > 0) refused.add(account, bytes);
    });
  return { clock, passed, come, mustWait: refused.mustWait };
}

test('after a refused body the next one of the same account waits by its bytes, and those of others do not', async (t) => {
  const { clock, passed, come, mustWait } = start();
  t.false(mustWait('eve'));
  await come('eve', 500);
  t.deepEqual([mustWait('eve'), mustWait('ann')], [true, false]);
  void come('eve', 0);
  await come('ann', 0);
  t.deepEqual(passed, ['eve 0', 'ann 0']);
  await clock.advance(499);
  t.is(passed.length, 2);
  await clock.advance(1);
  t.deepEqual(passed, ['eve 0', 'ann 0', 'eve 500']);
  await come('eve', 0);
  t.is(passed.at(-1), 'eve 500', 'one that is taken makes none wait');
});

test('of those that wait together each that is refused lets the others wait again', async (t) => {
  const { clock, passed, come } = start();
  await come('eve', 1_000);
  for (let body = 0; body < 3; body++) void come('eve', 1_000);
  await clock.advance(10_000);
  t.deepEqual(passed, ['eve 0', 'eve 1000', 'eve 2000', 'eve 3000']);
});

test('a body costs a bounded wait, however large it is', async (t) => {
  const { clock, passed, come } = start();
  await come('eve', 1_000_000);
  void come('eve', 0);
  await clock.advance(5_000);
  t.deepEqual(passed, ['eve 0', 'eve 5000']);
});
