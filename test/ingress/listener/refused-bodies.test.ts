import test from 'ava';
import { createRefusedBodies } from '../../../ingress/listener/body-budget.ts';
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

test('after a refused body the next one of the same account waits in proportion to its bytes; other accounts do not', async (t) => {
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
  t.is(passed.at(-1), 'eve 500', 'an accepted body delays none');
});

test('of several waiting bodies, each refused one makes the others wait again', async (t) => {
  const { clock, passed, come } = start();
  await come('eve', 1_000);
  for (let body = 0; body < 3; body++) void come('eve', 1_000);
  await clock.advance(10_000);
  t.deepEqual(passed, ['eve 0', 'eve 1000', 'eve 2000', 'eve 3000']);
});

test('a body of any size costs a bounded wait', async (t) => {
  const { clock, passed, come } = start();
  await come('eve', 1_000_000);
  void come('eve', 0);
  await clock.advance(5_000);
  t.deepEqual(passed, ['eve 0', 'eve 5000']);
});
