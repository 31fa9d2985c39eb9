import { mock } from 'node:test';
import test from 'ava';
import { repeatWhile } from '../../shared/repeat-while.ts';

test.before(() => mock.timers.enable({ apis: ['setInterval'] }));
test.after.always(() => mock.timers.reset());

test.serial('work is repeated from its beginning on while it is needed, and an idle process has no timer', (t) => {
  let [done, isNeeded, asked] = [0, true, 0];
  using repeated = repeatWhile({
    everyMs: 100,
    work: () => void done++,
    isNeeded() {
      asked++;
      return isNeeded;
    },
  });
  mock.timers.tick(1_000);
  t.is(asked, 0);
  repeated.begin();
  repeated.begin();
  mock.timers.tick(250);
  t.is(done, 2);
  isNeeded = false;
  mock.timers.tick(1_000);
  t.deepEqual([done, asked], [2, 3]);
  isNeeded = true;
  mock.timers.tick(1_000);
  t.is(done, 2);
  repeated.begin();
  mock.timers.tick(100);
  t.is(done, 3);
  repeated[Symbol.dispose]();
  mock.timers.tick(1_000);
  t.is(done, 3);
});
