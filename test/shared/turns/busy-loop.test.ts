import test from 'ava';
import { createBusyLoop } from '../../../shared/turns/busy-loop.ts';
import { turnsBusyFrom } from '../../../shared/turns/in-turn.ts';

test('for turns a loop is busy if it was working for 30% of the time since the last look, ten times a second', (t) => {
  const loop = { now: 0, utilization: 1, looks: 0 };
  const isBusy = createBusyLoop(turnsBusyFrom, {
    now: () => loop.now,
    utilization: () => {
      loop.looks++;
      return loop.utilization;
    },
  });
  t.false(isBusy(), 'nothing was seen yet');
  loop.now = 100;
  loop.utilization = 0.3;
  t.true(isBusy());
  loop.now = 199;
  loop.utilization = 0.29;
  t.true(isBusy());
  t.is(loop.looks, 1);
  loop.now = 200;
  t.false(isBusy());
});

test('the loop of this process is busy after it was blocked', async (t) => {
  const isBusy = createBusyLoop(0.5);
  const end = performance.now() + 150;
  while (performance.now() < end);
  await new Promise(setImmediate);
  t.true(isBusy());
});
